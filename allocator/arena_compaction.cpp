// Compaction: small blocks that may not be evicted go from pages that they alone keep to gaps in
// pages that are kept in any case.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "allocator/arena.h"

namespace tidepool {
namespace {

// Bytes that stay in each page that a block begins or ends in. Pages inside a block are its own.
class SharedPages {
 public:
  explicit SharedPages(size_t page_bytes) : page_bytes_(page_bytes) {}

  size_t touched(size_t begin, size_t end) const {
    return (end - 1) / page_bytes_ - begin / page_bytes_ + 1;
  }

  void add(size_t begin, size_t end) {
    for_each_shared(begin, end, [&](size_t page, size_t bytes) { held_[page] += bytes; });
  }
  void remove(size_t begin, size_t end) {
    for_each_shared(begin, end, [&](size_t page, size_t bytes) { held_[page] -= bytes; });
  }
  // Pages of a block that nothing else stays in.
  size_t alone(size_t begin, size_t end) const {
    size_t pages = inside(begin, end);
    for_each_shared(begin, end, [&](size_t page, size_t bytes) { pages += held(page) == bytes; });
    return pages;
  }
  // Pages of a free place that nothing stays in.
  size_t fresh(size_t begin, size_t end) const {
    size_t pages = inside(begin, end);
    for_each_shared(begin, end, [&](size_t page, size_t) { pages += held(page) == 0; });
    return pages;
  }

 private:
  size_t inside(size_t begin, size_t end) const {
    const size_t pages = touched(begin, end);
    return pages > 2 ? pages - 2 : 0;
  }
  template <typename Visit>
  void for_each_shared(size_t begin, size_t end, Visit&& visit) const {
    const size_t first = begin / page_bytes_;
    const size_t last = (end - 1) / page_bytes_;
    visit(first, std::min(end, (first + 1) * page_bytes_) - begin);
    if (last > first) visit(last, end - last * page_bytes_);
  }
  size_t held(size_t page) const {
    const auto it = held_.find(page);
    return it == held_.end() ? 0 : it->second;
  }

  const size_t page_bytes_;
  absl::flat_hash_map<size_t, size_t> held_;
};

}  // namespace

size_t Arena::compact(DeviceLock& lock, StreamId stream) {
  // Larger blocks have most of their pages for themselves wherever they lie.
  const size_t most_bytes = 2 * config_.handle_bytes;
  // Where requests move nothing, nothing is gained; where pages do not move windows do as well.
  const bool moves = config_.allow_moves && config_.allow_windows && !config_.evict_singly;
  if (!can_move_pages() || !moves || reclaimer_ == nullptr) return 0;
  struct Stay {
    BlockRef block;
    Owner owner;
  };
  std::vector<Stay> stays;
  SharedPages shared(config_.handle_bytes);
  heap_.flush();
  for (BlockId id = heap_.blocks().first(); id != BlockId::kNone; id = heap_[id].next) {
    const Block& block = heap_[id];
    if (block.state == BlockState::kFree || block.state == BlockState::kHole) continue;
    const bool owned = block.state == BlockState::kAllocated && block.owner != nullptr;
    if (owned && reclaimer_->evictable(block.owner)) continue;
    shared.add(block.offset, block.end());
    if (!owned || block.bytes > most_bytes || !is_alone(block, stream)) continue;
    if (reclaimer_->move_price(block.owner).barrier) continue;
    stays.push_back({heap_.blocks().ref(id), block.owner});
  }
  size_t won = 0;
  InFlight in_flight(*this);
  // From the highest address down: to where zones begin.
  for (auto stay = stays.rbegin(); stay != stays.rend(); ++stay) {
    if (!heap_.blocks().current(stay->block)) continue;
    const Block from = heap_[stay->block.id];
    const size_t alone = shared.alone(from.offset, from.end());
    const size_t touched = shared.touched(from.offset, from.end());
    if (alone == 0) continue;
    shared.remove(from.offset, from.end());
    BlockId place{};
    size_t begin = 0;
    size_t fresh = alone;
    heap_.for_each_free(stream, from.bytes, [&](BlockId id) {
      const Block& free = heap_[id];
      if (free.zone == Zone::kTiny) return;  // else tiny blocks would need another page
      for (const size_t at : {free.offset, free.end() - from.bytes}) {
        const size_t pages = shared.fresh(at, at + from.bytes);
        if (pages > fresh || shared.touched(at, at + from.bytes) > touched) continue;
        if (pages == fresh && (place == BlockId::kNone || at > begin)) continue;
        place = id, begin = at, fresh = pages;
      }
    });
    const bool moved =
        fresh < alone && move_block(lock, stay->block, stay->owner,
                                    heap_.take_from(place, begin, from.bytes), stream);
    if (!moved) begin = from.offset;
    shared.add(begin, begin + from.bytes);
    if (moved) won += alone - fresh;
    heap_.flush();
  }
  return won;
}

}  // namespace tidepool
