// Prefetcher: brings copies back from a tier before the operators that read them begin, while
// others run, so that fewer of them have to be waited for. It looks ahead of the job in the step
// that is expected (StepHistory), and begins a load when the loads up to some later call would
// otherwise not be over by that call. It takes free room, or the room of what leaves for nothing,
// because a copy of it has been made ahead (WriteBehind), and is used later than what is loaded.
// Nothing else is evicted for a load that nobody has asked for yet. At the first difference from
// the expected step it looks ahead only as far as another step that begins alike says, and where
// there is none, not at all.
// Refers to living storages, which forget() takes out. Not thread safe: the device's lock is held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "remat/lineage/container_bytes.h"
#include "remat/restore/contents.h"
#include "remat/restore/restorer.h"
#include "remat/steps/foreseen_storages.h"
#include "remat/steps/step_history.h"

namespace tidepool::remat {

class WriteBehind;

class Prefetcher {
 public:
  // `history`: the policy's; nullptr: it does not look ahead, and nothing is ever prefetched.
  Prefetcher(Contents& contents, Restorer& restorer, const StepHistory* history);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Whether early loads gain anything here. If not, only what keeps Contents::foreseen needs to be
  // called.
  bool enabled() const { return enabled_; }

  // Says which storages the history is about to meet.
  void before_meeting(std::span<Storage* const> storages);
  // The storage dies.
  void forget(Storage& storage);
  // The history has ended a step.
  void end_step();
  // Takes over what left in the last steps of another runtime's.
  void learn(const Prefetcher& other);
  // Ends all this.
  void disable() { enabled_ = false; }

  // The storage has left by a copy; `ahead`: one that had been made ahead.
  void left(const Storage& storage, bool ahead);
  // Begins the copies and loads that are due. May release the lock.
  void advance(DeviceLock& lock);

  // Whether this thread makes room for a load. Then only what has_leave() may be evicted, at
  // price().
  bool makes_room() const {
    return makes_room_for_ != nullptr && thread_ == RestorationQueue::this_thread();
  }
  bool has_leave(const Storage& storage) const;
  double price(const Storage& storage) const;

  struct Statistics {
    uint64_t prefetches = 0, prefetched_bytes = 0;
    uint64_t hits = 0;          // of them, those whose storage was then an operand
    uint64_t wasted_bytes = 0;  // of those that were evicted again, or died, before
  };
  Statistics statistics;

  size_t bookkeeping_bytes() const;

 private:
  // So many copies that will be read are looked at, at most; and so many operands.
  static constexpr size_t kMostLoads = 32;
  static constexpr size_t kMostOperands = 512;
  // Loads begin so much earlier than they would have to: operators take other times than before.
  static constexpr double kSlack = 1.5;

  struct Load {
    Storage* storage;                // nullptr: it has died
    StepHistory::Position position;  // of the call that reads it
    size_t outputs_bytes;            // made by operators before that
  };

  bool is_missing(const Storage& storage) const;
  void find_due();
  bool fetch(const Load& load, DeviceLock& lock);
  size_t leaving_bytes() const;
  void end_prefetch(Storage& storage, bool used);

  Contents& contents_;
  Restorer& restorer_;
  const StepHistory* const history_;
  bool enabled_;
  ForeseenStorages& storages_;
  const std::unique_ptr<WriteBehind> write_behind_;
  bool busy_ = false;                     // a thread is in advance()
  std::vector<Load> due_;                 // in the order of their reads
  const Load* makes_room_for_ = nullptr;  // one that `thread_` makes room for
  const void* thread_ = nullptr;
  uint64_t link_free_ns_ = 0;  // when, on the logical clock, the loads so far will be over
};

}  // namespace tidepool::remat
