// JobObserver: who wants to hear what the job does, as opposed to what is done for it: operators in
// the order in which they end, deaths of storages, contents that change unseen, uses on other
// streams, ends of steps. Replays, evictions and restorations are not among it, so that a job looks
// the same under every budget.
// Called with the device's lock held, so it must be quick, take no lock that anybody holds while
// calling the runtime, and call neither the runtime nor the allocator. It may use
// Storage::observed, which is its own.
#pragma once

#include <cstdint>
#include <span>

#include "allocator/stream_clocks.h"

namespace tidepool::remat {

enum class Access : uint8_t;
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

class JobObserver {
 public:
  // An operator's kernel is about to run on this thread.
  virtual void begins() = 0;
  virtual void ran(const ObservedCall& call) = 0;
  // The contents of `storage` may have changed, or will, in a way that no operator shows.
  virtual void cut(Storage& storage) = 0;
  virtual void died(Storage& storage) = 0;
  // The storage is used on this stream, too.
  virtual void used(Storage& storage, StreamId stream) = 0;
  // True: it wants to know of every storage that lives.
  virtual bool step_ended() = 0;
  virtual void lives(Storage& storage) = 0;
  // This is the forked child of the process that is observed; nothing follows.
  virtual void forked() = 0;

 protected:
  ~JobObserver() = default;
};

}  // namespace tidepool::remat
