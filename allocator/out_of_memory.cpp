#include <fmt/format.h>

#include <algorithm>

#include "allocator/budgeted_allocator.h"
#include "allocator/sizes.h"

namespace tidepool {

std::string OutOfMemoryReport::format() const {
  std::string text = fmt::format("out of memory: {} were asked for, under a budget of {}.\n",
                                 human_and_exact_bytes(requested_bytes),
                                 human_and_exact_bytes(budget_bytes));
  text += fmt::format("Held from the device: {}; in use: {}.\n",
                      human_and_exact_bytes(committed_bytes),
                      human_and_exact_bytes(allocated_bytes));
  std::vector<PinnedBytes> sorted = pinned;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const PinnedBytes& a, const PinnedBytes& b) { return a.bytes > b.bytes; });
  size_t total = 0;
  for (const PinnedBytes& entry : sorted) total += entry.bytes;
  if (total > 0) {
    text += fmt::format("Cannot be evicted now: {}:\n", human_and_exact_bytes(total));
    for (const PinnedBytes& entry : sorted) {
      if (entry.bytes == 0) continue;
      text += fmt::format("  {}: {}\n", entry.reason, human_and_exact_bytes(entry.bytes));
    }
  }
  text += fmt::format("The largest request that could have been served: {}.\n",
                      human_and_exact_bytes(largest_servable_bytes));
  text += fmt::format("No budget below {} can serve this one.",
                      human_and_exact_bytes(lower_bound_budget_bytes));
  return text;
}

OutOfMemory::OutOfMemory(OutOfMemoryReport report)
    : std::runtime_error(report.format()), report_(std::move(report)) {}

}  // namespace tidepool
