#include "remat/policy.h"

#include <stdexcept>

#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"

namespace tidepool::remat {
namespace {

TEST_CASE("a price is never free, never above the greatest, and never a barrier") {
  CHECK(price_of(0, 1).value == 1);
  CHECK(price_of(1, UINT64_MAX).value == 1);
  CHECK(price_of(UINT64_MAX, 0).value == Price::kGreatest);
  CHECK(price_of(UINT64_MAX, 1).value == Price::kGreatest);
  CHECK(!price_of(UINT64_MAX, 0).barrier);
  CHECK(price_of(1000, 0).value == price_of(1000, 1).value);
}

TEST_CASE("a price grows with the cost and falls with staleness") {
  CHECK(price_of(2000, 100).value == 2 * price_of(1000, 100).value);
  CHECK(price_of(1000, 200).value * 2 == price_of(1000, 100).value);
  CHECK(price_of(1'000'000, 1'000'000'000).value > price_of(999'000, 1'000'000'000).value);
}

TEST_CASE("an unknown policy is named, and so are the known ones") {
  LineageBuilder built;
  for (const char* name : {"need1", "coop", "dtr-eq"}) {
    CHECK(make_policy(name, built.store) != nullptr);
  }
  try {
    make_policy("dtr_eq", built.store);
    FAIL("accepted");
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    CHECK(text.find("'dtr_eq'") != std::string::npos);
    CHECK(text.find("dtr-eq") != std::string::npos);
  }
}

}  // namespace
}  // namespace tidepool::remat
