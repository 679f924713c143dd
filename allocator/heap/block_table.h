// BlockTable: from the address at which a block starts to the block, in O(1): one entry per
// alignment unit of the range, in memory that the kernel provides where it is written (4 KiB of
// table per 64 KiB of arena at a unit of 64 bytes, and only around blocks' starts).
// Owns the table. Not thread safe, but for drop() on parts that nobody uses.
// An entry is written when a block is handed out and never cleared: the reader checks that the
// record it leads to is of an allocated block which starts there.
#pragma once

#include <cstddef>

#include "allocator/heap/block.h"

namespace tidepool {

class BlockTable {
 public:
  // Throws: DeviceError if the addresses cannot be reserved.
  BlockTable(size_t range_bytes, size_t unit);
  ~BlockTable();
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  BlockId at(size_t offset) const { return entries_[offset >> unit_shift_]; }
  void set(size_t offset, BlockId id) { entries_[offset >> unit_shift_] = id; }
  // Gives back the table's memory for a part of the range; entries there become kNone.
  void drop(size_t offset, size_t bytes);

 private:
  size_t table_bytes_;
  unsigned unit_shift_;
  BlockId* entries_;
};

}  // namespace tidepool
