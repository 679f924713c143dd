#include "allocator/heap/free_index.h"

#include <algorithm>
#include <bit>

#include "allocator/base/check.h"

namespace tidepool {

FreeIndex::FreeIndex(BlockList& blocks, size_t unit, BlockState state)
    : blocks_(blocks), unit_shift_(static_cast<unsigned>(std::countr_zero(unit))), state_(state) {}

size_t FreeIndex::class_of(size_t bytes) const {
  size_t units = bytes >> unit_shift_;
  if (units < 64) return units;
  auto doubling = static_cast<size_t>(std::bit_width(units)) - 1;  // at least 6
  size_t slice = (units >> (doubling - 5)) & 31;
  size_t index = (doubling - 4) * 32 + slice;
  return index < kClasses ? index : kClasses - 1;
}

void FreeIndex::insert(BlockId id) {
  Block& block = blocks_[id];
  size_t index = class_of(block.bytes);
  BlockId head = heads_[index];
  block.link_previous = BlockId::kNone;
  block.link_next = head;
  if (head != BlockId::kNone) blocks_[head].link_previous = id;
  heads_[index] = id;
  words_[index / 64] |= uint64_t{1} << (index % 64);
  summary_ |= uint64_t{1} << (index / 64);
  ++count_;
  bytes_ += block.bytes;
}

void FreeIndex::remove(BlockId id) {
  Block& block = blocks_[id];
  size_t index = class_of(block.bytes);
  if (block.link_next != BlockId::kNone) {
    blocks_[block.link_next].link_previous = block.link_previous;
  }
  if (block.link_previous != BlockId::kNone) {
    blocks_[block.link_previous].link_next = block.link_next;
  } else {
    TIDEPOOL_CHECK(heads_[index] == id, "block at %zu is not in its class", block.offset);
    heads_[index] = block.link_next;
    if (block.link_next == BlockId::kNone) {
      words_[index / 64] &= ~(uint64_t{1} << (index % 64));
      if (words_[index / 64] == 0) summary_ &= ~(uint64_t{1} << (index / 64));
    }
  }
  block.link_previous = block.link_next = BlockId::kNone;
  --count_;
  bytes_ -= block.bytes;
}

size_t FreeIndex::least_bytes_of(size_t index) const {
  if (index < 64) return index << unit_shift_;
  return ((32 + index % 32) << (index / 32 - 1)) << unit_shift_;
}

BlockId FreeIndex::best_in(size_t index, size_t bytes) const {
  const size_t least_bytes = std::max(bytes, least_bytes_of(index));
  BlockId best{};
  int looks = 0;
  for (BlockId id = heads_[index]; id != BlockId::kNone; id = blocks_[id].link_next) {
    const Block& block = blocks_[id];
    if (block.bytes < bytes) continue;
    if (best == BlockId::kNone || block.bytes < blocks_[best].bytes ||
        (block.bytes == blocks_[best].bytes && block.offset < blocks_[best].offset)) {
      best = id;
    }
    if (block.bytes == least_bytes && ++looks == kSameSizeLooks) break;
  }
  return best;
}

size_t FreeIndex::next_class(size_t from) const {
  size_t word = from / 64;
  if (word >= kWords) return kClasses;
  uint64_t bits = words_[word] & (~uint64_t{0} << (from % 64));
  if (bits == 0) {
    uint64_t rest = word + 1 < 64 ? summary_ & (~uint64_t{0} << (word + 1)) : 0;
    if (rest == 0) return kClasses;
    word = static_cast<size_t>(std::countr_zero(rest));
    bits = words_[word];
  }
  return word * 64 + static_cast<size_t>(std::countr_zero(bits));
}

BlockId FreeIndex::best_fit(size_t bytes) const {
  size_t index = next_class(class_of(bytes));
  if (index == kClasses) return BlockId::kNone;
  // Only the request's own class can hold blocks that are too small.
  BlockId best = best_in(index, bytes);
  if (best != BlockId::kNone) return best;
  index = next_class(index + 1);
  if (index == kClasses) return BlockId::kNone;
  return best_in(index, bytes);
}

void FreeIndex::check_invariants() const {
  size_t count = 0;
  size_t bytes = 0;
  for (size_t index = 0; index < kClasses; ++index) {
    bool listed = heads_[index] != BlockId::kNone;
    bool bit = (words_[index / 64] >> (index % 64)) & 1;
    TIDEPOOL_CHECK(listed == bit, "(2) class %zu: listed %d, bit %d", index, listed, bit);
    BlockId previous{};
    for (BlockId id = heads_[index]; id != BlockId::kNone; id = blocks_[id].link_next) {
      const Block& block = blocks_[id];
      TIDEPOOL_CHECK(block.state == state_ && class_of(block.bytes) == index,
                     "(1) block at %zu in class %zu", block.offset, index);
      TIDEPOOL_CHECK(block.link_previous == previous, "(1) back link at %zu", block.offset);
      previous = id;
      ++count;
      bytes += block.bytes;
    }
  }
  for (size_t word = 0; word < kWords; ++word) {
    TIDEPOOL_CHECK((words_[word] != 0) == ((summary_ >> word) & 1), "(2) word %zu", word);
  }
  TIDEPOOL_CHECK(count == count_ && bytes == bytes_, "(3) %zu blocks, %zu bytes; not %zu, %zu",
                 count, bytes, count_, bytes_);
}

}  // namespace tidepool
