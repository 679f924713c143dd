#include "allocator/arena/allocator_config.h"

#include <functional>
#include <stdexcept>
#include <string>

#include "allocator/space/simulated_space.h"
#include "tests/support/allocator_world.h"
#include "tests/support/catch.h"

namespace tidepool {
namespace {

using test::config_of;
using test::kPage;

std::string refusal(const std::function<void(AllocatorConfig&)>& change) {
  SimulatedSpace space(kPage);
  AllocatorConfig config = config_of(8);
  change(config);
  try {
    completed(config, space);
    return "accepted";
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    return text.substr(0, text.find(':'));
  }
}

TEST_CASE("settings that cannot work are refused by name") {
  CHECK(refusal([](auto&) {}) == "accepted");
  CHECK(refusal([](auto& c) { c.alignment = 48; }) == "alignment");
  CHECK(refusal([](auto& c) { c.page_bytes = 4096; }) == "page_bytes");
  CHECK(refusal([](auto& c) { c.budget_bytes = kPage - 1; }) == "budget_bytes");
  CHECK(refusal([](auto& c) { c.budget_bytes = SIZE_MAX; }) == "budget_bytes");
  CHECK(refusal([](auto& c) { c.range_bytes = kPage; }) == "range_bytes");
}

TEST_CASE("an automatic page gives a budget about a thousand pages") {
  const auto pages_of = [](size_t budget_bytes) {
    SimulatedSpace space(kPage);
    AllocatorConfig config;
    config.budget_bytes = budget_bytes;
    return budget_bytes / completed(config, space).page_bytes;
  };
  CHECK(pages_of(size_t{8} << 20) == 128);
  CHECK(pages_of(size_t{1} << 30) == 1024);
  CHECK(pages_of(size_t{64} << 30) == 32768);
}

}  // namespace
}  // namespace tidepool
