// Restorer: makes evicted storages resident again by running their lineage, and by loading copies
// from a tier where there are any. It makes a plan first (RestorationPlan) and then runs it, one
// thread at a time (RestorationQueue). No lock is held while an operator runs or bytes are copied.
// Owns the blocks of replays under way. Thread safe under the device's lock.
// Invariants: (1) whatever restore() throws, no use, lock or ghost of its plans is left, and what
// was restored stays valid; (2) each call replays a bounded number of records.
// See docs/life-of-an-eviction.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "remat/restore/contents.h"
#include "remat/restore/restoration_plan.h"

namespace tidepool::remat {

struct RestorationStatistics {
  uint64_t plans = 0, longest_plan = 0, plan_peak_bytes = 0, lean_plans = 0;
  uint64_t operators_replayed = 0, copies_loaded = 0, loaded_bytes = 0, ghosts = 0, clones = 0;
  uint64_t replay_ns = 0, planning_ns = 0;
  uint64_t replayed_cost_ns = 0;  // of operators, as their first run took
};

class Restorer {
 public:
  explicit Restorer(Contents& contents) : contents_(contents) {}

  // Makes all of `storages` resident that are not dying. Requires: the caller has them locked.
  // Throws: OutOfMemory, RestorationError, what an operator throws.
  void restore(std::span<Storage* const> storages, DeviceLock& lock);

  // Does as restore(), and makes the calling thread's stream wait for hidden work on the storages.
  // Throws: as restore(); RestorationError also if one of them is dying.
  void make_resident(std::span<Storage* const> storages, DeviceLock& lock);

  // Brings the storage's copy back before anything reads it, if there is room, and no thread is
  // restoring. kFree: in free memory; kMade: also where a window of what may be evicted at this
  // moment is. False: it has not come back. Requires: the storage is evicted and has a copy, and
  // the tier's loads run beside operators.
  enum class Room : uint8_t { kFree, kMade };
  bool prefetch(Storage& storage, Room room, DeviceLock& lock);

  // Makes room from what the restoration under way has made for its later steps, where it does not
  // fit otherwise. False: there is nothing to give up.
  bool give_up_ghost() { return running_plan_ != nullptr && running_plan_->give_up_ghost(); }

  // The replay that is under way on the restorer's thread.
  struct Running {
    const Record* record = nullptr;  // nullptr: there is none
    uint32_t since = 0;              // as Origin::serial counts
  };
  const Running& running() const { return running_; }

  RestorationStatistics statistics;

 private:
  struct Step;

  // One restoration may replay this many times the records of its first plan, and as many times
  // those of its first lean plan, and kLeastPatience in any case.
  static constexpr uint64_t kPatience = 8;
  static constexpr uint64_t kLeastPatience = 64;

  void make(RestorationPlan& plan, std::span<Storage* const> storages);
  void run(RestorationPlan& plan, DeviceLock& lock);
  void run_next(RestorationPlan& plan, DeviceLock& lock);
  void run_record(RestorationPlan& plan, Record& record, DeviceLock& lock);
  void load(Value& value, DeviceLock& lock);
  void load_into(void* block, Value& value, StreamId stream, DeviceLock& lock);
  void take_target(Step& step, DeviceLock& lock);
  void execute(Step& step, DeviceLock& lock);
  void free_outputs(Step& step);
  void require_equal(const Value* value, const void* address) const;
  void require_equal(Step& step);
  void give(Value* value, void* address, StreamId stream);

  Contents& contents_;
  Running running_;
  RestorationPlan* running_plan_ = nullptr;
};

}  // namespace tidepool::remat
