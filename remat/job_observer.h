// JobObserver: who wants to hear what the job does, as opposed to what is done for it: operators in
// the order in which they end, deaths of storages, contents that change unseen, uses on other
// streams, ends of steps. Replays, evictions and restorations are not among it, so that a job looks
// the same under every budget.
// An observer may listen to some steps only: to all others, only their ends are told.
// Called with the device's lock held, so it must be quick, take no lock that anybody holds while
// calling the runtime, and call neither the runtime nor the allocator. It may use
// Storage::observed, which is its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "allocator/streams/stream_clocks.h"
#include "remat/lineage/labels.h"

namespace tidepool::remat {

struct RecordType;
struct Storage;

// One tensor argument of an operator, as far as it matters. A storage may be there several times.
struct Operand {
  Storage* storage;
  Access access;
};

// An operator that has run, or failed.
struct ObservedCall {
  const RecordType& type;
  uint64_t site = 0;  // as OperatorCall::set_type was told
  uint64_t cost_ns = 0;
  StreamId stream = StreamId::kDefault;
  // False: it cannot be run again, whatever it is called with.
  bool recordable = true;
  std::span<const Operand> operands;    // a storage among them may be dead by now
  std::span<Storage* const> outputs{};  // nullptr where it made no memory of ours
};

// A step that has ended.
struct StepEnd {
  uint32_t step = 0;           // as Runtime::steps() counts; 0 where the policy does not look ahead
  bool repeated = false;       // it did what a step before it did that is remembered
  uint64_t fingerprint = 0;    // of what it did
  uint64_t expected = 0;       // fingerprint of what should come next; 0: nothing is foreseen
  size_t outputs = 0;          // as a policy that looks ahead counts them
  uint64_t evictions = 0;      // so far
  uint64_t computed_ns = 0;    // likewise: what the job's own operators cost
  uint64_t replayed_ns = 0;    // likewise: what those that were replayed cost at first
  uint64_t prices = 0;         // likewise: that searches for room asked for
  size_t allocated_bytes = 0;  // now, by the allocator
};

class JobObserver {
 public:
  // It listens now; asked when it is set, and after each operator that it has heard of.
  virtual bool listens() const = 0;
  // An operator's kernel is about to run on this thread.
  virtual void begins() = 0;
  virtual void ran(const ObservedCall& call) = 0;
  // The contents of `storage` may have changed, or will, in a way that no operator shows.
  virtual void cut(Storage& storage) = 0;
  virtual void died(Storage& storage) = 0;
  // The storage is used on this stream, too.
  virtual void used(Storage& storage, StreamId stream) = 0;
  // True: it listens to the step that begins. If it did not before, it hears of all that lives.
  virtual bool step_ended(const StepEnd& end) = 0;
  virtual void lives(Storage& storage) = 0;
  // That it keeps now.
  virtual size_t bookkeeping_bytes() const = 0;
  // This is the forked child of the process that is observed; nothing follows.
  virtual void forked() = 0;

 protected:
  ~JobObserver() = default;
};

}  // namespace tidepool::remat
