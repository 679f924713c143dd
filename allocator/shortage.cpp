#include "allocator/shortage.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "allocator/base/check.h"
#include "allocator/base/sizes.h"

namespace tidepool {
namespace {

using BytesByUse = std::map<std::string, size_t>;

std::vector<UsedBytes> greatest_first(const BytesByUse& uses) {
  std::vector<UsedBytes> all;
  for (const auto& [use, bytes] : uses) all.push_back({use, bytes});
  std::stable_sort(all.begin(), all.end(),
                   [](const UsedBytes& a, const UsedBytes& b) { return a.bytes > b.bytes; });
  return all;
}

// Fills the report's `pinned` and `evictable`.
void tell_uses(Arena& arena, const Request& request, OutOfMemoryReport& report) {
  const Heap& heap = arena.heap;
  std::vector<HeldBlock> held;
  std::vector<BlockId> ids;
  for (BlockId id = heap.blocks().first(); id != BlockId::kNone; id = heap[id].next) {
    const Block& block = heap[id];
    if (block.state != BlockState::kAllocated) continue;
    ids.push_back(id);
    held.push_back({arena.address_of(id).pointer(), block.owner, block.origin()});
  }
  if (arena.reclaimer != nullptr) arena.reclaimer->tell_uses(held);
  BytesByUse pinned;
  BytesByUse evictable;
  for (size_t k = 0; k < ids.size(); ++k) {
    const Block& block = heap[ids[k]];
    BytesByUse& uses = arena.is_evictable(block, request.stream) ? evictable : pinned;
    uses[held[k].use] += block.requested_bytes;
    if (block.bytes > block.requested_bytes) {
      uses["rounding up of sizes"] += block.bytes - block.requested_bytes;
    }
  }
  report.pinned = greatest_first(pinned);
  report.evictable = greatest_first(evictable);
  TIDEPOOL_CHECK(report.pinned_bytes() + report.evictable_bytes() == report.allocated_bytes,
                 "%zu pinned and %zu evictable bytes are not the %zu in use", report.pinned_bytes(),
                 report.evictable_bytes(), report.allocated_bytes);
}

// How many pages hold anything that cannot be evicted.
size_t pinned_pages(const Arena& arena, StreamId stream) {
  const Heap& heap = arena.heap;
  size_t pages = 0;
  size_t counted = 0;  // pages below this one are
  for (BlockId id = heap.blocks().first(); id != BlockId::kNone; id = heap[id].next) {
    const Block& block = heap[id];
    if (block.state != BlockState::kAllocated || arena.is_evictable(block, stream)) continue;
    const size_t first = std::max(counted, block.offset / arena.page_bytes());
    counted = std::max(first, (block.end() - 1) / arena.page_bytes() + 1);
    pages += counted - first;
  }
  return pages;
}

// A budget such that no smaller one can serve the request while what is pinned lies where it does.
size_t lower_bound(const Arena& arena, const Request& request, size_t pinned_bytes) {
  const size_t page_bytes = arena.page_bytes();
  if (request.asked_bytes > SIZE_MAX - pinned_bytes - page_bytes) return request.asked_bytes;
  size_t bound = round_up(pinned_bytes + request.asked_bytes, page_bytes);
  if (request.device_failed || request.bytes > arena.config.range_bytes) return bound;
  if (arena.reclaimer != nullptr && arena.config.allow_remap) {
    // The request shares at most its first and its last page with what stays.
    const size_t shared = 2 * (page_bytes - arena.config.alignment);
    const size_t own = request.bytes - std::min(request.bytes, shared);
    const size_t pinned = pinned_pages(arena, request.stream);
    bound = std::max(bound, pinned * page_bytes + round_up(own, page_bytes));
  }
  // This budget has not been enough, and a smaller one would hold fewer of these pages.
  const bool is_short = arena.pages_at_hand() * page_bytes < request.bytes;
  if (is_short) bound = std::max(bound, (arena.pages.attainable() + 1) * page_bytes);
  return bound;
}

}  // namespace

OutOfMemoryReport report_shortage(Arena& arena, RoomSearch& search, const Request& request) {
  ++arena.counts.out_of_memory;
  OutOfMemoryReport report;
  report.requested_bytes = request.asked_bytes;
  // Of a budget that is not a multiple of a page's size, the last bytes count only in the report.
  const size_t given = arena.pages.given_budget();
  const size_t budget = arena.counts.budget_bytes;
  const bool is_lowered = given < budget / arena.page_bytes();
  report.budget_bytes = is_lowered ? given * arena.page_bytes() : budget;
  const DeviceLimit& device = arena.pages.device_limit();
  if (device.was_set()) report.limit_bytes = device.last_pages() * arena.page_bytes();
  report.committed_bytes = arena.committed_bytes();
  report.allocated_bytes = arena.heap.allocated_bytes();
  report.awaiting_bytes = arena.heap.awaiting_bytes();
  report.largest_servable_bytes = search.largest_servable(request);
  tell_uses(arena, request, report);
  report.lower_bound_budget_bytes = lower_bound(arena, request, report.pinned_bytes());
  return report;
}

}  // namespace tidepool
