// BlockList: the records of all blocks, linked in address order.
// Owns the records, in chunks that never move, so references stay good when blocks are added. The
// records are linked, not packed in address order, because frees and splits, the frequent
// operations, touch only two neighbours. A search for room copies what it needs of all blocks into
// a list of its own first (PricedLayout), which takes 6 to 17 ns for each block.
// Not thread safe.
// Invariants: (1) blocks in use tile [0, range_bytes) in address order without gap or overlap; (2)
// every record is either in use or on the list of spare records.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "allocator/blocks/block.h"

namespace tidepool {

class BlockList {
 public:
  // A list without blocks, for a range of so many bytes, which append() fills.
  explicit BlockList(size_t range_bytes) : range_bytes_(range_bytes) {}

  Block& operator[](BlockId id) {
    auto index = static_cast<uint32_t>(id);
    return chunks_[index / kChunk][index % kChunk];
  }
  const Block& operator[](BlockId id) const {
    auto index = static_cast<uint32_t>(id);
    return chunks_[index / kChunk][index % kChunk];
  }

  // Appends a kHole block at the end of what exists; used to lay out the zones.
  BlockId append(size_t bytes, Zone zone);
  // Cuts block `id` to `bytes` and returns the rest, a new block of the same state and zone whose
  // links are empty. Requires: 0 < bytes < size of the block.
  BlockId split(BlockId id, size_t bytes);
  // Adds the next block's bytes to block `id`; the next block's record goes.
  void absorb_next(BlockId id);

  BlockId first() const { return first_; }
  // The first block of what was appended for a zone, the first time; kNone: there was nothing. The
  // zone's other blocks follow, and then those of another zone.
  BlockId first_of(Zone zone) const { return zone_firsts_[static_cast<size_t>(zone)]; }
  size_t count() const { return count_; }
  // Every id is smaller, also of blocks that are gone: records stay.
  size_t record_count() const { return records_; }
  // True if `ref` still names the block it was taken from.
  bool current(BlockRef ref) const { return (*this)[ref.id].generation == ref.generation; }
  BlockRef ref(BlockId id) const { return {id, (*this)[id].generation}; }

  void check_invariants() const;

 private:
  static constexpr uint32_t kChunk = 1024;  // records; 64 KiB

  BlockId take_record();

  const size_t range_bytes_;
  std::vector<std::unique_ptr<Block[]>> chunks_;
  uint32_t records_ = 1;  // record 0 is BlockId::kNone
  BlockId spare_{};       // linked through link_next
  BlockId first_{};
  BlockId last_{};
  std::array<BlockId, kZoneCount> zone_firsts_{};
  size_t count_ = 0;
};

}  // namespace tidepool
