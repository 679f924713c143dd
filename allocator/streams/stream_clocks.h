// StreamClocks: how far each stream is known to have come, for memory that goes from one stream to
// another. Each stream counts epochs. A use of memory belongs to the epoch that is open when the
// use ends. When an epoch is closed, a fence is recorded, which stands for every earlier epoch,
// too; so one fence serves all that was freed since the last one.
// Owns the fences. Not thread safe: the caller holds the lock; it makes no device call itself.
// Invariants: (1) passed < open on every stream, and the fences kept are of epochs in between, in
// ascending order; (2) once passed() or ordered() is true of a use, it stays true.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "allocator/streams/stream_order.h"

namespace tidepool {

// The number of an epoch of one stream. Epoch 0 has passed from the start.
using Epoch = uint64_t;

// A use of memory by the work on `stream` up to the end of `epoch`.
struct StreamUse {
  StreamId stream = StreamId::kDefault;
  Epoch epoch = 0;

  friend bool operator==(const StreamUse&, const StreamUse&) = default;
};

// Uses by several streams: at most one entry for each, in ascending order of streams.
using StreamUses = absl::InlinedVector<StreamUse, 2>;
// Adds a use to others; of two on one stream the later one is kept.
void add_use(StreamUses& uses, StreamUse use);
void add_uses(StreamUses& uses, std::span<const StreamUse> more);

class StreamClocks {
 public:
  // Makes room for a stream's books, before any other function is asked about the stream.
  void add_stream(StreamId stream);
  bool knows(StreamId stream) const { return index(stream) <= others_.size(); }
  size_t stream_count() const { return others_.size() + 1; }

  // The epoch that a use which ends now belongs to.
  Epoch open(StreamId stream) const { return at(stream).open; }
  // Whether the host knows that the work is done, so that every stream may use the memory.
  bool passed(StreamUse use) const { return use.epoch <= at(use.stream).passed; }
  // Whether work that `waiter` gets from now on runs after `use` without another wait.
  bool ordered(StreamId waiter, StreamUse use) const;

  // Ends the open epoch, for which a fence is recorded next, and returns it.
  Epoch close(StreamId stream) { return at(stream).open++; }
  // Adds a fence that was recorded after all work of the epoch `use.epoch`, which close() has
  // returned.
  void add_fence(StreamUse use, std::shared_ptr<Fence> fence);

  struct Milestone {
    StreamUse use;  // it and all that came before it have passed when the fence has
    std::shared_ptr<Fence> fence;
  };
  // The earliest fence that stands for the use; the fence is null if none has been recorded.
  Milestone milestone_for(StreamUse use) const;
  // All fences that are not known to have passed, the earlier ones of a stream first.
  std::vector<Milestone> milestones() const;
  size_t milestones(StreamId stream) const { return at(stream).fences.size(); }
  bool has_milestone(StreamId stream) const { return !at(stream).fences.empty(); }

  void note_passed(StreamUse use);
  // Closes the open epochs of all streams, and returns the last closed one of each.
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
