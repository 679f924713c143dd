// BlockTable: leads from the offset at which a block starts to the block, in O(1). It has one entry
// for each alignment unit of the range. The kernel provides memory only where entries are written:
// with units of 64 bytes, 4 KiB of table for 64 KiB of arena, and only around the starts of blocks.
// Owns the table. Not thread safe, but for drop() on parts that nobody uses.
// An entry is written when a block is handed out and never cleared: the reader checks that the
// record it leads to is of an allocated block which starts there.
#pragma once

#include <cstddef>

#include "allocator/blocks/block.h"

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
