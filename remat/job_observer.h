// JobObserver: an interface for whoever wants to hear what the job does, as opposed to what is done
// for it: operators in the order in which they end, deaths of storages, contents that change
// unseen, uses on other streams, ends of steps. Replays, evictions and restorations are not among
// it, so that a job looks the same under every budget.
// An observer may listen to some steps only; of the others it hears only their ends.
// It is called with the device's lock held. So it must be quick, must take no lock that anybody
// holds while calling the runtime, and may call only functions of runtime and allocator that
// require the lock. It may use Storage::observer_number, which is its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "allocator/streams/stream_clocks.h"
#include "remat/lineage/labels.h"

namespace tidepool::remat {

class StepHistory;
struct RecordType;
struct Storage;

// One tensor argument of an operator, as the runtime sees it. Several may have the same storage.
struct Operand {
  Storage* storage;
  Access access;
};

// An operator that has run, or failed.
struct ObservedCall {
  static constexpr uint32_t kNoPosition = UINT32_MAX;

  const RecordType& type;
  uint64_t site = 0;  // the one that OperatorCall::set_type() was told
  // Its place in its step, as StepHistory counts; kNoPosition for what is no call there.
  uint32_t position = kNoPosition;
  uint64_t cost_ns = 0;
  StreamId stream = StreamId::kDefault;
  // False: the operator cannot be run again, whatever it is called with.
  bool recordable = true;
  std::span<const Operand> operands;    // a storage among them may be dead by now
  std::span<Storage* const> outputs{};  // nullptr for an output that has no memory of ours
  // Where the job called it, as JSON; equal places have equal addresses, and their texts live as
  // long as the process. nullptr: not known.
  const char* place = nullptr;
};

// A step that has ended.
struct StepEnd {
  uint32_t step = 0;           // as a policy that looks ahead counts them; 0 where it does not
  bool repeated = false;       // it did what an earlier step did that is remembered
  uint64_t fingerprint = 0;    // that of this step (StepHistory)
  uint64_t expected = 0;       // that of the step that should come next; 0: nothing is foreseen
  uint64_t foreseen = 0;       // that with which this step was foreseen, if it went so; else 0
  uint64_t form = 0;           // that of this step: a fingerprint without sizes
  bool form_repeated = false;  // it did what a remembered step did, of whatever sizes
  size_t outputs = 0;          // how many it had, as a policy that looks ahead counts them
  uint64_t evictions = 0;      // since the start, as the next four
  uint64_t computed_ns = 0;    // what the job's own operators have cost
  uint64_t replayed_ns = 0;    // what the replayed operators cost when they ran first
  uint64_t waited_ns = 0;      // for a tier
  uint64_t prices = 0;         // how many prices searches for room have asked for
  size_t allocated_bytes = 0;  // by the allocator, now
};

class JobObserver {
 public:
  // Whether the observer listens now. Asked when it is set, and after each operator of which it
  // hears.
  virtual bool listens() const = 0;
  // An operator's kernel is about to run on this thread.
  virtual void begins() = 0;
  virtual void ran(const ObservedCall& call) = 0;
  // The contents of `storage` may have changed, or will, in a way that no operator shows.
  virtual void cut(Storage& storage) = 0;
  virtual void died(Storage& storage) = 0;
  // The job uses the storage on this stream, too.
  virtual void used(Storage& storage, StreamId stream) = 0;
  // A step has ended. True: the observer listens to the step that begins. If it did not listen
  // before, it hears of all storages that live (lives()).
  virtual bool step_ended(const StepEnd& end) = 0;
  virtual void lives(Storage& storage) = 0;
  // The step under way is of a size that the job has not had, and is foreseen from here on
  // (StepHistory::foreseeing()).
  virtual void foreseen(const StepHistory& history) { static_cast<void>(history); }
  // The bytes that the observer keeps now.
  virtual size_t bookkeeping_bytes() const = 0;
  // This process is a forked child of the one that is observed. No call follows.
  virtual void forked() = 0;

 protected:
  ~JobObserver() = default;
};

}  // namespace tidepool::remat
