// StreamClocks: what is known of how far each stream has come, for memory that goes from one stream
// to another. Each stream counts epochs: a use of memory belongs to the epoch that is open at its
// end; closing an epoch goes with recording a fence, which then stands for every earlier epoch too.
// So one fence serves all that was freed since the last one.
// Owns the fences. Not thread safe: the caller holds the lock; it makes no device call itself.
// Invariants: (1) passed < open on every stream, and the fences kept are of epochs in between, in
// ascending order; (2) what passed() and ordered() say once they say for ever.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "allocator/streams/stream_order.h"

namespace tidepool {

// Counts the fences of one stream. Epoch 0 has passed from the start.
using Epoch = uint64_t;

// Work on `stream` up to the end of `epoch`.
struct StreamUse {
  StreamId stream = StreamId::kDefault;
  Epoch epoch = 0;

  friend bool operator==(const StreamUse&, const StreamUse&) = default;
};

// At most one entry per stream, in ascending order of streams.
using StreamUses = absl::InlinedVector<StreamUse, 2>;
// Joins a use to others: of two on one stream the later holds.
void add_use(StreamUses& uses, StreamUse use);
void add_uses(StreamUses& uses, std::span<const StreamUse> more);

class StreamClocks {
 public:
  // Makes room for a stream's books; needed before any other function hears of it.
  void know(StreamId stream);
  bool knows(StreamId stream) const { return index(stream) <= others_.size(); }
  size_t stream_count() const { return others_.size() + 1; }

  // The epoch that a use which ends now belongs to.
  Epoch open(StreamId stream) const { return at(stream).open; }
  // The host knows that the work is done: memory is free for everyone.
  bool passed(StreamUse use) const { return use.epoch <= at(use.stream).passed; }
  // Work that `waiter` gets from now on runs after `use`, without anything more to be done.
  bool ordered(StreamId waiter, StreamUse use) const;

  // Ends the open epoch, for which a fence is recorded next: every use of it has ended. Returns it.
  Epoch close(StreamId stream) { return at(stream).open++; }
  // The fence recorded after close() returned `use.epoch`, or after a later close().
  void add_fence(StreamUse use, std::shared_ptr<Fence> fence);

  struct Milestone {
    StreamUse use;  // passes together with the fence, and everything before it
    std::shared_ptr<Fence> fence;
  };
  // The earliest fence that stands for the use; without a fence where none has been recorded.
  Milestone milestone_for(StreamUse use) const;
  // All fences that may have passed since they were last looked at, the earlier ones of a stream
  // first.
  std::vector<Milestone> milestones() const;
  bool has_milestone(StreamId stream) const { return !at(stream).fences.empty(); }

  void note_passed(StreamUse use);
  // The last closed epoch of each stream, once all open ones are closed.
  std::vector<StreamUse> close_all();
  void note_waited(StreamId waiter, StreamUse use);

  void check_invariants() const;

 private:
  struct Stream {
    Epoch open = 1;
    Epoch passed = 0;
    std::vector<Milestone> fences;
  };
  static size_t index(StreamId stream) { return static_cast<size_t>(stream); }
  const Stream& at(StreamId stream) const {
    if (stream == StreamId::kDefault) [[likely]]
      return default_;
    return others_[index(stream) - 1];
  }
  Stream& at(StreamId stream) { return const_cast<Stream&>(std::as_const(*this).at(stream)); }
  static uint64_t pair_of(StreamId waiter, StreamId stream) {
    return uint64_t{static_cast<uint32_t>(waiter)} << 32 | static_cast<uint32_t>(stream);
  }

  Stream default_;
  std::vector<Stream> others_;                   // from stream 1 on
  absl::flat_hash_map<uint64_t, Epoch> waited_;  // waiter and stream -> latest epoch waited for
};

}  // namespace tidepool
