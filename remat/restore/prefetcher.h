// Prefetcher: brings copies back from a tier before the operators that read them begin, while
// others run, so that fewer of them have to be waited for. It looks ahead of the job in the step
// that is expected (StepHistory), and begins a load when the loads up to some later call would
// otherwise not be over by that call. It takes free room only: nothing is evicted for a load that
// nobody has asked for yet. At the first difference from the expected step it looks ahead only as
// far as another step that begins alike says, and where there is none, not at all.
// That a parameter will be read is known before the step has met it if the step that is expected
// is like the one before it: then storages that the last step found have its numbers.
// Owns nothing; refers to living storages, which forget() takes out. Not thread safe: the device's
// lock is held.
// Invariant: an entry of known_ is nullptr or a storage that is alive and has its index as number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "remat/lineage/container_bytes.h"
#include "remat/restore/contents.h"
#include "remat/restore/restorer.h"
#include "remat/steps/step_history.h"

namespace tidepool::remat {

class Prefetcher {
 public:
  // `history`: the policy's; nullptr: it does not look ahead, and nothing is ever prefetched.
  Prefetcher(Contents& contents, Restorer& restorer, const StepHistory* history);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Whether early loads gain anything here. If not, nothing else needs to be called.
  bool enabled() const { return enabled_; }

  // Says which storages the history is about to meet, and which it has met.
  void before_meeting(std::span<Storage* const> storages);
  void after_meeting(std::span<Storage* const> storages);
  // The storage dies.
  void forget(Storage& storage);
  // The history has ended a step.
  void end_step();
  // Ends all this.
  void disable() { enabled_ = false; }

  // Begins the loads that are due. May release the lock.
  void advance(DeviceLock& lock);

  struct Statistics {
    uint64_t prefetches = 0, prefetched_bytes = 0;
    uint64_t hits = 0;          // of them, those whose storage was then an operand
    uint64_t wasted_bytes = 0;  // of those that were evicted again, or died, before
  };
  Statistics statistics;

  size_t bookkeeping_bytes() const { return bytes_of(known_) + bytes_of(due_); }
  void check_invariants() const;

 private:
  // So many copies that will be read are looked at, at most; and so many operands.
  static constexpr size_t kMostLoads = 32;
  static constexpr size_t kMostOperands = 512;
  // Loads begin so much earlier than they would have to: operators take other times than before.
  static constexpr double kSlack = 1.5;

  struct Load {
    Storage* storage;      // nullptr: it has died
    size_t outputs_bytes;  // made by operators before the one that reads it
  };

  bool is_known(const Storage& storage, uint32_t number) const;
  bool is_missing(const Storage& storage) const;
  void find_due();
  bool fetch(const Load& load, DeviceLock& lock);
  void end_prefetch(Storage& storage, bool used);

  Contents& contents_;
  Restorer& restorer_;
  const StepHistory* const history_;
  bool enabled_;
  bool busy_ = false;            // a thread is in advance()
  std::vector<Storage*> known_;  // by number
  std::vector<Load> due_;        // in the order of their reads
  uint32_t expectation_ = 0;     // in which numbers of the step before hold
  uint64_t link_free_ns_ = 0;    // when, on the logical clock, the loads so far will be over
};

}  // namespace tidepool::remat
