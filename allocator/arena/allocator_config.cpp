#include "allocator/arena/allocator_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "allocator/base/sizes.h"
#include "allocator/space/address_space.h"

namespace tidepool {
namespace {

// A pinned block keeps the pages it touches from being moved, so a budget of few pages wastes much:
// of requests that should just fit, with 5 % to spare, 64 pages refused 15 %, 512 pages 0.05 %.
// Above 2 MiB (a huge page, and the granularity of GPUs) only the page table gets shorter.
size_t automatic_page_bytes(const AllocatorConfig& config, const AddressSpace& space) {
  constexpr size_t kLeast = 4 * kKiB, kMost = 2 * kMiB, kPages = 1024;
  size_t bytes = std::max({kLeast, space.granularity(), config.alignment * 16});
  while (bytes < kMost && bytes * kPages < config.budget_bytes) bytes *= 2;
  // However many there are, the device must be able to map each at a place of its own.
  while (config.budget_bytes / bytes > space.mapping_limit() / 2) bytes *= 2;
  return bytes;
}

// The fewest pages of a budget with a zone for numbers, of which it takes one.
constexpr size_t kPagesForNumbers = 128;

}  // namespace

AllocatorConfig completed(AllocatorConfig config, const AddressSpace& space) {
  auto refuse = [](const std::string& why) { throw std::invalid_argument(why); };
  if (!is_power_of_two(config.alignment)) {
    refuse(fmt::format("alignment: {} is not a power of two", config.alignment));
  }
  if (config.page_bytes == 0) config.page_bytes = automatic_page_bytes(config, space);
  if (!is_power_of_two(config.page_bytes) || config.page_bytes < config.alignment * 16 ||
      config.page_bytes % space.granularity() != 0) {
    refuse(
        fmt::format("page_bytes: {} has to be a power of two, at least 16 alignments ({}) and "
                    "a multiple of the memory's granularity ({})",
                    config.page_bytes, config.alignment * 16, space.granularity()));
  }
  if (config.budget_bytes < config.page_bytes) {
    refuse(fmt::format("budget_bytes: {} is less than one page ({})",
                       human_and_exact_bytes(config.budget_bytes),
                       human_and_exact_bytes(config.page_bytes)));
  }
  constexpr size_t kGreatestBudget = size_t{1} << 44;
  if (config.budget_bytes > kGreatestBudget) {
    refuse(fmt::format("budget_bytes: {} is more than {}",
                       human_and_exact_bytes(config.budget_bytes), human_bytes(kGreatestBudget)));
  }
  // Where pages cannot move numbers gain nothing by a zone, and each costs room for large blocks,
  // as the zones divide the budget itself.
  const bool few_pages = config.budget_bytes < config.page_bytes * kPagesForNumbers;
  if (config.placement.has_numbers() && (few_pages || !space.has_virtual_memory())) {
    config.placement = kWithoutNumbers;
  }
  if (!space.has_virtual_memory()) {  // what is reserved is held
    config.allow_remap = false;
    config.budget_bytes = config.range_bytes =
        round_down(config.budget_bytes, config.page_bytes * 8);
    if (config.budget_bytes == 0) refuse("budget_bytes: less than eight pages");
  }
  if (config.range_bytes == 0) {
    config.range_bytes = std::max(config.budget_bytes * 8, config.page_bytes * 64);
  }
  if (config.range_bytes < config.budget_bytes) {
    refuse(fmt::format("range_bytes: {} is less than the budget of {}",
                       human_and_exact_bytes(config.range_bytes),
                       human_and_exact_bytes(config.budget_bytes)));
  }
  config.range_bytes = round_up(config.range_bytes, config.page_bytes * 8);
  return config;
}

}  // namespace tidepool
