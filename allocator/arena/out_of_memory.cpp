#include "allocator/arena/out_of_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "allocator/base/sizes.h"

namespace tidepool {
namespace {

size_t sum(const std::vector<UsedBytes>& uses) {
  size_t bytes = 0;
  for (const UsedBytes& each : uses) bytes += each.bytes;
  return bytes;
}

void add_table(std::string& text, const char* title, const std::vector<UsedBytes>& uses) {
  if (uses.empty()) return;
  text += fmt::format("{}: {}:\n", title, human_and_exact_bytes(sum(uses)));
  for (const UsedBytes& each : uses) {
    text += fmt::format("  {}: {}\n", each.use, human_and_exact_bytes(each.bytes));
  }
}

}  // namespace

size_t OutOfMemoryReport::pinned_bytes() const { return sum(pinned); }
size_t OutOfMemoryReport::evictable_bytes() const { return sum(evictable); }

std::string OutOfMemoryReport::format() const {
  std::string text =
      fmt::format("out of memory: {} were asked for, under a budget of {}.\n",
                  human_and_exact_bytes(requested_bytes), human_and_exact_bytes(budget_bytes));
  text +=
      fmt::format("Held from the device: {}; in use: {}", human_and_exact_bytes(committed_bytes),
                  human_and_exact_bytes(allocated_bytes));
  if (awaiting_bytes > 0) {
    text += fmt::format("; freed, but still used on other streams: {}",
                        human_and_exact_bytes(awaiting_bytes));
  }
  text += ".\n";
  if (limit_bytes < budget_bytes) {
    text += fmt::format("The device has given no more than {}: others use the rest.\n",
                        human_and_exact_bytes(limit_bytes));
  }
  add_table(text, "Cannot be evicted now", pinned);
  add_table(text, "Can be evicted", evictable);
  text += fmt::format("The largest request that could have been served: {}",
                      human_and_exact_bytes(largest_servable_bytes));
  const size_t limit = std::min(budget_bytes, limit_bytes);
  const size_t goes = limit - std::min(limit, pinned_bytes());
  if (goes >= requested_bytes && requested_bytes > largest_servable_bytes) {
    text += ", because what stays lies between what is free and what can be evicted";
  }
  text += ".\n";
  text += fmt::format("No budget below {} can serve this one, at this moment.",
                      human_and_exact_bytes(lower_bound_budget_bytes));
  if (budget_to_try_bytes == 0) return text;
  if (tried_steps) {
    text += fmt::format("\nA budget to try: {}. In simulation the job's first steps run under it.",
                        human_and_exact_bytes(budget_to_try_bytes));
  } else {
    text += fmt::format(
        "\nA budget to try: at least {}. In simulation the job gets past this "
        "request under it; what the rest of the step needs is not known yet.",
        human_and_exact_bytes(budget_to_try_bytes));
  }
  return text;
}

OutOfMemory::OutOfMemory(OutOfMemoryReport report)
    : std::runtime_error(report.format()), report_(std::move(report)) {}

}  // namespace tidepool
