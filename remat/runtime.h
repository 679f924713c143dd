// Runtime: the state machine of values, versions, effects, escapes and restoration for one device.
// Owns all lineage and the bytes of ghosts and retained roots; does not own the allocator, the
// backend, or the bytes of live storages. Implements the allocator's Reclaimer.
// Thread safety: functions that take a DeviceLock& need it held, may release it for a while, and
// hold it again on return or throw; the others say what they need.
// See docs/life-of-an-eviction.md for the walk through all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "allocator/arena/reclaimer.h"
#include "allocator/budgeted_allocator.h"
#include "remat/call_context.h"
#include "remat/chaos.h"
#include "remat/job_observer.h"
#include "remat/limits.h"
#include "remat/lineage/backend.h"
#include "remat/lineage/content_check.h"
#include "remat/lineage/lineage.h"
#include "remat/observation.h"
#include "remat/policies/step_history.h"
#include "remat/policies/step_plan.h"
#include "remat/restore/contents.h"
#include "remat/restore/mover.h"
#include "remat/restore/restoration_error.h"
#include "remat/restore/restorer.h"
#include "remat/versions.h"

namespace tidepool::remat {

struct RuntimeConfig {
  std::string policy = "planned";  // a name of policy_names()
  Chaos chaos = Chaos::kNone;
  uint64_t seed = 0;  // of whatever is drawn: by chaos, or by the policy
  // Whether results of in-place operators can be evicted and made again (Coop's recomputable
  // in-place). Off: they are roots, for comparison.
  bool record_in_place = true;
  // Where the policy looks ahead: it does so from the beginning, or once something was evicted.
  bool step_history_at_once = true;
  Limits limits;
};

struct RuntimeStatistics {
  uint64_t operators_seen = 0, operators_recorded = 0, operators_replayed = 0;
  uint64_t evictions = 0, evicted_bytes = 0;
  uint64_t rematerializations = 0;  // storages made resident again
  uint64_t ghosts = 0, retained = 0, escapes = 0;  // so far
  uint64_t retained_bytes = 0;                     // held now
  uint64_t plans = 0, longest_plan = 0;
  uint64_t plan_peak_bytes = 0;  // greatest estimate of what a plan would hold at once
  uint64_t lean_plans = 0;       // made after one that locked all its inputs ran out of memory
  uint64_t clones = 0, snapshots = 0;
  // Steps of walks: operands looked at before they are written; outputs and inputs of records that
  // were looked at for what depends on a root. Linear in the operands of calls.
  uint64_t operand_checks = 0, dependent_checks = 0;
  uint64_t contents_compared = 0;  // under chaos: restored contents with those evicted
  std::map<std::string, uint64_t> contents_different;  // by the operator that made them
  std::map<std::string, ContentCheck::Coverage> chaos_coverage;         // likewise
  uint64_t replay_ns = 0, bookkeeping_ns = 0;
  uint64_t values = 0, records = 0, storages = 0, lineage_bytes = 0;  // alive now
  // Kept now for lineage and residency: lineage, with all that its records keep, and what policies,
  // the backend and the observer keep. Without contents, what the allocator knows of blocks, and
  // what pools hold to use it again: no more than was in use at once.
  uint64_t bookkeeping_bytes = 0;
  // Bytes of live storages whose contents are roots, by reason.
  size_t root_bytes[static_cast<size_t>(RootReason::kCount)] = {};
};

class Runtime final : public Reclaimer {
 public:
  // Throws: std::invalid_argument naming an unknown policy.
  Runtime(BudgetedAllocator& allocator, Backend& backend, const RuntimeConfig& config);
  ~Runtime() override;

  DeviceMutex& mutex() const;

  // Starts to track a framework storage whose bytes are the block at `address`, as a root; the
  // backend takes its weak reference. Sets the block's owner; nullptr if it has one already, then
  // nothing is tracked anew. Requires: lock held.
  Storage* track(void* backend_storage, void* address, size_t bytes, RootReason reason);

  // The tracked storage whose bytes start at `address`; nullptr if none. Requires: lock held.
  Storage* find(const void* address) const;

  // The framework frees the bytes at `address` (the storage died, or its bytes were replaced): the
  // block goes back to the allocator, or is kept as a retained root. Takes the lock.
  void free(void* address);

  // An evicted storage died. Takes the lock.
  void on_evicted_storage_freed(Storage* storage);

  // Locks against eviction for the length of an operation. Requires: lock held.
  void lock_storage(Storage* storage);
  void unlock_storage(Storage* storage);

  // Makes all of them resident; they must be locked by the caller. One restorer at a time.
  // Throws: OutOfMemory, RestorationError, what an operator throws.
  void make_resident(std::span<Storage* const> storages, DeviceLock& lock);

  // The contents of a (resident, locked) storage are about to be lost or changed outside a record:
  // restores evicted dependents, turns resident ones into roots, and starts a new root version.
  void cut(Storage* storage, RootReason reason, DeviceLock& lock);

  // A raw pointer leaves our sight for good. Restores first. kEscaped.
  void escape(Storage* storage, DeviceLock& lock);

  // Evicts `storage` if it can be; for tests and chaos. Requires: lock held.
  bool evict_storage(Storage* storage);
  size_t evict_everything();  // likewise

  // Chaos at an allocation; a no-op in the other modes. Requires: lock held.
  void chaos_at_allocation();

  // A step of the job has ended: ages lineage. Takes the lock.
  void end_step();

  // Who hears what the job does from now on; nullptr: nobody. Takes the lock.
  void set_observer(JobObserver* observer);
  // The job uses the storage on a stream, beside those of its operators. Requires: lock held.
  void note_use(Storage& storage, StreamId stream);

  // Knows from now on what `other` has learnt of its steps, as if they had been its own; nothing
  // where the policies do not look ahead. Both are between two steps. Takes both locks, in turn.
  void learn_from(const Runtime& other);
  // The same in two parts. Each takes the lock.
  StepHistory step_history() const;
  void learn(const StepHistory& step_history);

  // For policies that follow a plan: it holds for steps that are expected to be like that which it
  // was found on, and as far as they are. Requires: lock held. Throws: std::invalid_argument naming
  // an unknown policy.
  void set_plan(const StepPlan& plan);
  // Steps that have ended, as a policy that looks ahead counts them; 0 where the policy does not
  // look ahead, or not yet. Whether the last one did what a step before it did. Take the lock.
  uint32_t steps() const;
  bool step_repeated() const;
  // Of the last step; equal steps have equal ones. Takes the lock.
  uint64_t last_fingerprint() const;

  // Off: what is resident becomes roots, new results are roots. Takes the lock.
  void set_recording(bool on);
  bool recording() const;
  // Any record is alive: something may be evicted, or depend on what is written. Requires: lock
  // held.
  bool has_lineage() const;

  // From now on nothing is evicted, and everything is resident: somebody works on tensors unseen,
  // or a graph is captured. Counted. Throws like make_resident(), if it does not fit; then nothing
  // has changed.
  void pause_evicting(DeviceLock& lock);
  void resume_evicting();  // requires: lock held
  // What recorded calls depend on besides their operands is about to change: as pause_evicting().
  void begin_settling(DeviceLock& lock);
  // It has changed: contents are roots now, those of calls under way, too, and eviction goes on.
  // Requires: lock held, after begin_settling().
  void end_settling();
  // Anything was restored so far; anything is evicted now. Require: lock held.
  bool has_restored() const;
  bool has_evicted() const;

  // Of the operator that runs on this thread. Requires: lock held; valid while it is.
  std::span<const Operand> running_operands() const;

  // What an OperatorCall works with.
  CallContext& call_context() { return calls_; }

  // So many threads have run operators so far; three, or more, count as three. Requires: lock held.
  size_t threads() const;
  // Storages that hold gradients now are known as such from now on. Takes the lock.
  void mark_gradients();

  // The next operator or plan will look for retained roots that nothing needs any more. Requires:
  // lock held, or no other thread.
  bool sweep_is_due() const;

  // In a forked child: no evictions, no waiting, no observer; evicted storages are still restored.
  void become_forked_child();

  RuntimeStatistics statistics() const;  // takes the lock
  void check_invariants();               // takes the lock; aborts with values and place

  // Reclaimer
  void begin_search() override;
  bool asks_for_free_beside() const override;
  bool allows_shortlists() const override;
  Preference preference() const override;
  Price price(Owner owner, size_t free_beside_bytes = 0) override;
  bool evictable(Owner owner) override;
  double price_per_byte(Owner owner, size_t free_beside_bytes = 0) override;
  bool evict(Owner owner) override;
  Price move_price(Owner owner) override;
  uint64_t copy_ns(size_t bytes) const override;
  uint64_t time_price(Owner owner, uint64_t ns) override;
  bool move(DeviceLock& lock, Owner owner, void* to) override;
  bool wait_for_room(DeviceLock& lock) override;
  void tell_uses(std::span<HeldBlock> blocks) override;

 private:
  Price price_of_time(const Storage& storage, uint64_t ns) const;
  bool end_storage(Storage* storage, void* address);
  void tell_step_ended();

  Contents contents_;
  Restorer restorer_{contents_};
  Mover mover_{contents_};
  Versions versions_{contents_, restorer_};
  Observation observation_;
  LimitKeeper limits_;
  ChaosEvictions chaos_;
  CallContext calls_;
  uint64_t evictions_compacted_ = 0;  // by the last compaction
  uint64_t escapes_ = 0;
};

}  // namespace tidepool::remat
