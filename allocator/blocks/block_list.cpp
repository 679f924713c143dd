#include "allocator/blocks/block_list.h"

#include "allocator/base/check.h"

namespace tidepool {

BlockId BlockList::take_record() {
  if (spare_ != BlockId::kNone) {
    BlockId id = spare_;
    spare_ = (*this)[id].link_next;
    uint32_t generation = (*this)[id].generation;
    (*this)[id] = Block{};
    (*this)[id].generation = generation;
    return id;
  }
  if (records_ / kChunk >= chunks_.size()) chunks_.push_back(std::make_unique<Block[]>(kChunk));
  return BlockId{records_++};
}

BlockId BlockList::append(size_t bytes, Zone zone) {
  BlockId id = take_record();
  Block& block = (*this)[id];
  block.offset = last_ == BlockId::kNone ? 0 : (*this)[last_].end();
  block.bytes = bytes;
  block.zone = zone;
  block.previous = last_;
  if (last_ == BlockId::kNone) {
    first_ = id;
  } else {
    (*this)[last_].next = id;
  }
  last_ = id;
  BlockId& first = zone_firsts_[static_cast<size_t>(zone)];
  if (first == BlockId::kNone) first = id;
  ++count_;
  return id;
}

BlockId BlockList::split(BlockId id, size_t bytes) {
  Block& head = (*this)[id];
  TIDEPOOL_CHECK(bytes > 0 && bytes < head.bytes, "split of %zu bytes at %zu", head.bytes, bytes);
  BlockId rest = take_record();
  Block& tail = (*this)[rest];
  tail.offset = head.offset + bytes;
  tail.bytes = head.bytes - bytes;
  tail.state = head.state;
  tail.zone = head.zone;
  tail.stream = head.stream;
  tail.freed_epoch = head.freed_epoch;
  tail.previous = id;
  tail.next = head.next;
  if (head.next == BlockId::kNone) {
    last_ = rest;
  } else {
    (*this)[head.next].previous = rest;
  }
  head.next = rest;
  head.bytes = bytes;
  ++count_;
  return rest;
}

void BlockList::absorb_next(BlockId id) {
  Block& block = (*this)[id];
  BlockId gone = block.next;
  Block& next = (*this)[gone];
  TIDEPOOL_CHECK(gone != BlockId::kNone && next.zone == block.zone, "nothing to absorb at %zu",
                 block.offset);
  block.bytes += next.bytes;
  block.next = next.next;
  if (next.next == BlockId::kNone) {
    last_ = id;
  } else {
    (*this)[next.next].previous = id;
  }
  ++next.generation;
  next.bytes = 0;
  next.state = BlockState::kHole;
  next.link_next = spare_;
  spare_ = gone;
  --count_;
}

void BlockList::check_invariants() const {
  size_t at = 0;
  size_t seen = 0;
  BlockId previous{};
  for (BlockId id = first_; id != BlockId::kNone; id = (*this)[id].next) {
    const Block& block = (*this)[id];
    TIDEPOOL_CHECK(block.offset == at && block.bytes > 0, "(1) block at %zu should start at %zu",
                   block.offset, at);
    TIDEPOOL_CHECK(block.previous == previous, "(1) back link of the block at %zu", block.offset);
    at = block.end();
    previous = id;
    ++seen;
    TIDEPOOL_CHECK(seen <= count_, "(1) more blocks than %zu", count_);
  }
  TIDEPOOL_CHECK(at == range_bytes_, "(1) blocks end at %zu, not %zu", at, range_bytes_);
  TIDEPOOL_CHECK(previous == last_ && seen == count_, "(1) %zu blocks, not %zu", seen, count_);
  for (const Zone zone : kZones) {
    const BlockId id = first_of(zone);
    TIDEPOOL_CHECK(id == BlockId::kNone || ((*this)[id].bytes > 0 && (*this)[id].zone == zone),
                   "(3) zone %d", static_cast<int>(zone));
  }
  size_t spare = 0;
  for (BlockId id = spare_; id != BlockId::kNone; id = (*this)[id].link_next) ++spare;
  TIDEPOOL_CHECK(spare + seen + 1 == records_, "(2) %zu spare + %zu used of %u records", spare,
                 seen, records_);
}

}  // namespace tidepool
