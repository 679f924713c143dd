// AllocatorObserver: an interface for whoever wants to hear of every change to blocks and pages,
// such as statistics and histories in another framework's form. The allocator calls it with the
// device's lock held. So an observer must be quick, must take no lock that anybody holds while
// calling the allocator, and must not call the allocator.
// RelayingObserver: an observer that passes on to another one what it hears.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/base/stream_id.h"

namespace tidepool {

enum class BlockUse : uint8_t {
  kHole,  // addresses without pages
  kFree,
  kAwaiting,  // freed, but still used by a stream or a fence
  kAllocated,
};

// A block as others may see it; `requested_bytes` only of an allocated one.
// `moves`: the allocator itself allocates or frees it, as it moves a caller's contents from one
// block to another one.
struct BlockView {
  const void* address = nullptr;
  size_t bytes = 0;
  size_t requested_bytes = 0;
  StreamId stream = StreamId::kDefault;
  BlockUse use = BlockUse::kHole;
  bool moves = false;
};

class AllocatorObserver {
 public:
  virtual void allocated(const BlockView& block) = 0;
  // The caller has freed the block. If streams still use it, a call of awaiting() follows.
  virtual void freed(const BlockView& block, bool still_used) = 0;
  // A freed block starts to wait for streams, or has ended to wait. Where only a part of a waiting
  // block is taken, the whole block ends to wait, and what is left of it starts again.
  virtual void awaiting(const BlockView& block, bool starts) = 0;
  // The bytes held from the device have changed to `bytes`.
  virtual void reserved(size_t bytes) = 0;
  // A page can be used, or cannot any longer.
  virtual void page(const void* address, size_t bytes, bool usable) = 0;

 protected:
  ~AllocatorObserver() = default;
};

// What a class derived from it overrides has to pass on by the function that it overrides.
class RelayingObserver : public AllocatorObserver {
 public:
  void allocated(const BlockView& block) override {
    if (next_ != nullptr) next_->allocated(block);
  }
  void freed(const BlockView& block, bool still_used) override {
    if (next_ != nullptr) next_->freed(block, still_used);
  }
  void awaiting(const BlockView& block, bool starts) override {
    if (next_ != nullptr) next_->awaiting(block, starts);
  }
  void reserved(size_t bytes) override {
    if (next_ != nullptr) next_->reserved(bytes);
  }
  void page(const void* address, size_t bytes, bool usable) override {
    if (next_ != nullptr) next_->page(address, bytes, usable);
  }

 protected:
  // `next`: who hears of it, too; nullptr: nobody.
  explicit RelayingObserver(AllocatorObserver* next) : next_(next) {}
  ~RelayingObserver() = default;

  AllocatorObserver* const next_;
};

}  // namespace tidepool
