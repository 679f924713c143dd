#include "allocator/heap/free_blocks.h"

namespace tidepool {

FreeBlocks::Pool::Pool(BlockList& blocks, size_t unit, size_t bins_limit_bytes)
    : bins(blocks, unit, bins_limit_bytes), free(one_per_zone<FreeIndex>(blocks, unit)) {}

FreeBlocks::FreeBlocks(BlockList& blocks, const StreamClocks& clocks, size_t unit,
                       size_t bins_limit_bytes)
    : blocks_(blocks),
      clocks_(clocks),
      unit_(unit),
      bins_limit_bytes_(bins_limit_bytes),
      default_pool_(blocks, unit, bins_limit_bytes) {}

void FreeBlocks::add_stream(StreamId stream) {
  while (other_pools_.size() < static_cast<size_t>(stream)) {
    other_pools_.push_back(std::make_unique<Pool>(blocks_, unit_, bins_limit_bytes_));
  }
}

BlockId FreeBlocks::pop_any_cached() {
  for (size_t stream = 0; stream <= other_pools_.size(); ++stream) {
    const BlockId id = bins(static_cast<StreamId>(stream)).pop_any();
    if (id != BlockId::kNone) return id;
  }
  return BlockId::kNone;
}

BlockId FreeBlocks::find_lendable(Zone zone, size_t bytes, StreamId stream, bool ordered) const {
  BlockId best{};
  for (size_t other = 0; other <= other_pools_.size(); ++other) {
    if (other == static_cast<size_t>(stream)) continue;
    const FreeIndex& index = pool(static_cast<StreamId>(other)).free[static_cast<size_t>(zone)];
    const BlockId id = index.best_fit(bytes);
    if (id == BlockId::kNone) continue;
    const StreamUse use{blocks_[id].stream, blocks_[id].freed_epoch};
    if (ordered && !clocks_.ordered(stream, use)) continue;
    if (best == BlockId::kNone || blocks_[id].bytes < blocks_[best].bytes) best = id;
  }
  return best;
}

size_t FreeBlocks::cached_bytes() const {
  size_t bytes = 0;
  for_each_pool([&](const Pool& pool) { bytes += pool.bins.bytes(); });
  return bytes;
}

size_t FreeBlocks::indexed_bytes() const {
  size_t bytes = 0;
  for_each_pool([&](const Pool& pool) {
    for (const FreeIndex& index : pool.free) bytes += index.bytes();
  });
  return bytes;
}

void FreeBlocks::check_invariants() const {
  for_each_pool([](const Pool& pool) {
    pool.bins.check_invariants();
    for (const FreeIndex& index : pool.free) index.check_invariants();
  });
}

}  // namespace tidepool
