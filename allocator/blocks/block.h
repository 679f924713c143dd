// Block: the unit the allocator hands out: a record of one piece of the range.
// Plain data; BlockList owns the records, Heap keeps their states and links consistent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/base/origin.h"
#include "allocator/base/owner.h"
#include "allocator/blocks/placement.h"
#include "allocator/streams/stream_clocks.h"

namespace tidepool {

enum class BlockId : uint32_t { kNone = 0 };

enum class BlockState : uint8_t {
  kHole,          // addresses without pages
  kFree,          // committed, in the free index; no neighbour of it is kFree
  kCached,        // committed and free, in an exact-size bin, not merged yet
  kUnmerged,      // committed and free, not merged while ids of blocks must stay valid
  kAllocated,     // handed out
  kAwaitingFree,  // freed, but other streams may still use it
  kClaimed,       // being given to a request, or emptied of its pages
  kQuarantined,   // committed, but the device refused access or unmapping
};

struct alignas(64) Block {
  size_t offset = 0;  // from the start of the range
  size_t bytes = 0;
  union {
    size_t requested_bytes = 0;  // kAllocated: what the caller asked for
    Epoch freed_epoch;           // free: when its stream's last use ended; see stream_clocks.h
  };
  Owner owner = nullptr;  // kAllocated: its storage, or null
  BlockId previous{};     // neighbours in address order
  BlockId next{};
  BlockId link_previous{};  // in the list that its state puts it in; kAllocated: see origin()
  BlockId link_next{};
  uint32_t generation = 0;               // counts the uses of this record
  uint32_t refused_search = 0;           // the search in which evicting it was refused
  StreamId stream = StreamId::kDefault;  // whose work may use it without waiting
  BlockState state = BlockState::kHole;
  Zone zone = Zone::kTiny;
  bool shared = false;  // other streams use it, or may: SharedUses knows which

  size_t end() const { return offset + bytes; }

  // The origin of an allocated block, kept in place of its links, because it is in no list.
  Origin origin() const {
    return {static_cast<uint32_t>(link_previous), static_cast<uint32_t>(link_next)};
  }
  void set_origin(Origin origin) {
    link_previous = BlockId{origin.serial};
    link_next = BlockId{origin.thread};
  }
};
static_assert(sizeof(Block) == 64, "one cache line: the search walks all of them");

// A reference to a block that can be checked after the lock was released in between.
struct BlockRef {
  BlockId id{};
  uint32_t generation = 0;
};

}  // namespace tidepool
