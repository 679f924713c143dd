// Runtime: the rematerialization of one device: it tracks storages and their contents, evicts them
// when the allocator asks for room, and restores them before they are used.
// Owns all lineage, and the bytes of ghosts and retained roots; not the allocator, the backend, or
// the bytes of live storages. Implements the allocator's Reclaimer.
// Thread safety: functions that take a DeviceLock& require it to be held, may release it for a
// while, and hold it again when they return or throw. The others say what they require.
// docs/life-of-an-eviction.md walks through all of it.
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
#include "remat/lineage/list_operators.h"
#include "remat/observation.h"
#include "remat/restore/contents.h"
#include "remat/restore/mover.h"
#include "remat/restore/prefetcher.h"
#include "remat/restore/restoration_error.h"
#include "remat/restore/restorer.h"
#include "remat/steps/step_history.h"
#include "remat/steps/step_plan.h"
#include "remat/tier/tier.h"
#include "remat/versions.h"

namespace tidepool::remat {

struct RuntimeConfig {
  std::string policy = "planned";  // a name of policy_names()
  Chaos chaos = Chaos::kNone;
  uint64_t seed = 0;  // of the random numbers of chaos and of the policy
  // Whether a policy that looks ahead does so from the beginning, or only once something was
  // evicted.
  bool step_history_at_once = true;
  // Whether copies are brought back before they are read, where that takes less of the job's time.
  bool prefetches = true;
  // Whether contents without lineage may leave by copies, too.
  bool offloads_roots = true;
  // Whether writes through raw pointers begin other contents. If not, what has no lineage is copied
  // only when it leaves: such a write would be lost with its bytes.
  bool notices_raw_writes = true;
  // Whether contents that come back otherwise than they were evicted are an error.
  bool compares_restored = false;
  Limits limits;
};

struct RuntimeStatistics {
  uint64_t operators_seen = 0, operators_recorded = 0, operators_replayed = 0;
  uint64_t evictions = 0, evicted_bytes = 0;
  // Of the evictions, those that left a copy in a tier, and copies that were brought back.
  uint64_t offloads = 0, offloaded_bytes = 0, fetches = 0, fetched_bytes = 0;
  // Of the copies brought back, those that came before they were read; how many of these were then
  // read by an operator; and bytes of those that went again, or died, before.
  uint64_t prefetches = 0, prefetch_hits = 0, prefetch_wasted_bytes = 0;
  // Bytes copied to the tier before they were to leave, and those of them that did not leave by
  // that copy.
  uint64_t written_behind_bytes = 0, write_behind_wasted_bytes = 0;
  TierStatistics tier;
  ForesightStatistics foresight;
  uint64_t rematerializations = 0;                 // storages made resident again
  uint64_t ghosts = 0, retained = 0, escapes = 0;  // how many there have been
  uint64_t retained_bytes = 0;                     // held now
  // Plans are those of restorations (RestorationPlan), not those of steps.
  uint64_t plans = 0, longest_plan = 0;
  uint64_t plan_peak_bytes = 0;  // the greatest estimate of what a plan would hold at once
  uint64_t lean_plans = 0;       // made after a plan that locked all its inputs ran out of memory
  uint64_t clones = 0, snapshots = 0;
  uint64_t unseen_writes = 0;  // contents found to have been written behind the runtime's back
  // How many operands were looked at before they were written, and how many outputs and inputs of
  // records to find what depends on a root. Tests check that they are linear in the operands of
  // calls.
  uint64_t operand_checks = 0, dependent_checks = 0;
  uint64_t contents_compared = 0;  // under chaos: restored contents compared with those evicted
  std::map<std::string, uint64_t> contents_different;            // by the operator that made them
  std::map<std::string, ContentCheck::Coverage> chaos_coverage;  // by operator
  uint64_t replay_ns = 0, bookkeeping_ns = 0;
  uint64_t values = 0, records = 0, storages = 0, lineage_bytes = 0;  // alive now
  // The bytes kept now for lineage and residency: lineage with all that its records keep, and what
  // the policy, the backend and the observer keep. Contents, the allocator's records of blocks, and
  // free memory in pools are not in it.
  uint64_t bookkeeping_bytes = 0;
  // Bytes of live storages whose contents are roots, by reason.
  size_t root_bytes[static_cast<size_t>(RootReason::kCount)] = {};
};

class Runtime final : public Reclaimer {
 public:
  // Makes itself the allocator's reclaimer. `tier`: where contents may go beside being forgotten;
  // nullptr: nowhere. Throws: std::invalid_argument naming an unknown policy, or one that does not
  // go with a tier.
  Runtime(BudgetedAllocator& allocator, Backend& backend, const RuntimeConfig& config,
          std::unique_ptr<Tier> tier = nullptr);
  ~Runtime() override;

  DeviceMutex& mutex() const;

  // Starts to track a framework storage whose bytes are the block at `address`, as a root, and
  // makes it the block's owner. The backend takes its weak reference. Returns nullptr, and does
  // nothing, if the block has an owner already. Requires: lock held.
  Storage* track(void* framework_storage, void* address, size_t bytes, RootReason reason);

  // The tracked storage whose bytes start at `address`; nullptr if none. Requires: lock held.
  Storage* find(const void* address) const;

  // The framework frees the bytes at `address`, because the storage died or its bytes were
  // replaced. The block goes back to the allocator, or is kept as a retained root. Takes the lock.
  void free(void* address);

  // An evicted storage died. Takes the lock.
  void on_evicted_storage_freed(Storage* storage);

  // Locks a storage against eviction for the length of an operation; see locked_storage.h.
  // Requires: lock held.
  void lock_storage(Storage* storage);
  void unlock_storage(Storage* storage);

  // Makes all of the storages resident, for a reader that is no operator: it may read them on any
  // stream. One thread restores at a time. Throws: OutOfMemory; RestorationError; DeviceError; what
  // an operator throws. Requires: the caller has locked the storages.
  void make_resident(std::span<Storage* const> storages, DeviceLock& lock);

  // Prepares a storage, which is resident and locked, for contents that are lost or changed outside
  // of a record: restores evicted dependents, makes resident ones roots, and starts a new root
  // version.
  void cut(Storage* storage, RootReason reason, DeviceLock& lock);

  // A raw pointer to the storage leaves our sight for good: restores the storage, and makes its
  // contents a root that is never evicted again.
  void escape(Storage* storage, DeviceLock& lock);
  // The same, until each operator for which this was called has told by leave_alone() that it does
  // not use the storage any more; unless the storage escapes for good meanwhile.
  void escape_for_a_while(Storage* storage, DeviceLock& lock);
  void leave_alone(Storage* storage);

  // Evict one storage, if that is possible, or all that is possible; for tests and chaos. Require:
  // lock held.
  bool evict_storage(Storage* storage);
  size_t evict_everything();

  // Lets chaos evict at an allocation, where its mode says so. Requires: lock held.
  void chaos_at_allocation();

  // A step of the job has ended: ages lineage. Takes the lock.
  void end_step();

  // Sets who hears what the job does from now on; nullptr: nobody. Takes the lock.
  void set_observer(JobObserver* observer);
  // The job uses the storage on this stream, beyond the uses by its operators. Requires: lock held.
  void note_use(Storage& storage, StreamId stream);

  // What it has learnt of the job's steps. learn() takes over what another runtime has learnt, as
  // if the steps had been this runtime's own. Both do nothing if the policy does not look ahead, or
  // not yet. Require: the runtime is between two steps. Each takes the lock.
  StepHistory step_history() const;
  void learn(const StepHistory& step_history);
  // Takes over what left by copies in another runtime's last step of each kind, so that it is
  // copied ahead here. Requires: as learn(), and that nobody uses `other`.
  void learn_departures(const Runtime& other);

  // Gives a plan to a policy that follows plans. It holds for steps that should be like the one
  // that it was found on, as far as they are. Requires: lock held. Throws: std::invalid_argument
  // naming an unknown policy.
  void set_plan(const StepPlan& plan);
  // Does so from any thread, without a lock, and also for the step under way: it holds from the
  // next search for room on. The plan names a known policy.
  void post_plan(StepPlan plan);
  // Switches recording on or off. While it is off, new results are roots, and resident contents
  // become roots when it is switched off. Takes the lock.
  void set_recording(bool on);
  bool recording() const;
  bool offloads() const { return contents_.residency.copies.enabled(); }  // there is a tier
  // Whether contents without lineage may be evicted, too.
  bool offloads_roots() const { return contents_.residency.offloads_roots(); }
  // How an operator on lists that runs now is cut, whose results take `result_bytes`. Requires:
  // lock held.
  ListCut list_cut(ListOperator kind, size_t result_bytes) const;
  const Tier* tier() const { return contents_.residency.copies.tier(); }  // nullptr: there is none
  // For how long the job has waited for the tier so far. Requires: offloads().
  uint64_t tier_wait_ns() const {
    const TierStatistics counts = contents_.residency.copies.tier()->statistics();
    return counts.store_ns + counts.load_ns;
  }
  // Whether any record is alive, so that something may be evicted, or depend on contents that are
  // written. Requires: lock held.
  bool has_lineage() const;

  // Restores everything, and evicts nothing until resume_evicting(), because somebody works on
  // tensors unseen, or a graph is captured. Calls nest. Throws: as make_resident(), if not
  // everything fits; then nothing has changed.
  void pause_evicting(DeviceLock& lock);
  void resume_evicting();  // requires: lock held
  // These stand around a change of something that recorded calls depend on beside their operands,
  // such as a switch or a kernel, and settle all contents: from then on none depends on how it was
  // made. The first restores what only a replay can bring back, and nothing is evicted until the
  // second, which makes all contents roots, also those of calls under way. Throws: as
  // pause_evicting(). The second requires: lock held.
  void begin_settling(DeviceLock& lock);
  void end_settling();
  // Whether anything was restored or moved so far, and whether anything is evicted now. Require:
  // lock held.
  bool has_restored() const;
  bool has_evicted() const;

  // The operands of the operator that runs on this thread, valid while the lock is held. Requires:
  // lock held.
  std::span<const Operand> running_operands() const;

  // What an OperatorCall works with.
  CallContext& call_context() { return calls_; }

  // How many threads have run operators so far, where more than three count as three. Requires:
  // lock held.
  size_t threads() const;
  // Notes which storages hold gradients now, for reports. Takes the lock.
  void mark_gradients();

  // Whether the next operator or restoration will look for retained roots that nothing needs any
  // more.
  // Requires: lock held, or no other thread.
  bool sweep_is_due() const;

  // Are called before a fork, and after it in the parent and in the child. In the child evictions,
  // waits and observation end; evicted storages are still restored. Require: lock held.
  void before_fork();
  void after_fork_in_parent();
  void become_forked_child();

  RuntimeStatistics statistics() const;  // takes the lock
  void check_invariants();               // takes the lock; aborts with values and place

  // The functions of Reclaimer.
  void begin_search() override;
  bool asks_for_free_beside() const override;
  bool allows_shortlists() const override;
  // What only a copy lets go stays longer than anything else, if there is anything else.
  bool may_be_shortlisted(Owner owner) const override {
    return static_cast<const Storage*>(owner)->current->producer != nullptr;
  }
  Preference preference() const override;
  Price price(Owner owner, size_t free_beside_bytes = 0) override;
  bool evictable(Owner owner) override;
  double price_per_byte(Owner owner, size_t free_beside_bytes = 0) override;
  bool evict(Owner owner) override;
  Price move_price(Owner owner) override;
  uint64_t copy_ns(size_t bytes) const override;
  uint64_t time_price(Owner owner, uint64_t ns) override;
  bool move(DeviceLock& lock, Owner owner, void* to) override;
  bool give_up_or_wait(DeviceLock& lock) override;
  void tell_uses(std::span<HeldBlock> blocks) override;

 private:
  void restore_and_freeze(DeviceLock& lock, bool all);
  void give_up_copies_ahead(DeviceLock& lock);
  Price price_of_time(const Storage& storage, uint64_t ns) const;
  bool end_storage(Storage* storage, void* address);
  void let_escape(Storage& storage, bool for_good, DeviceLock& lock);
  void cut_unasked(Storage& storage, RootReason reason, DeviceLock& lock);
  void tell_step_ended();

  Contents contents_;
  Restorer restorer_{contents_};
  Prefetcher prefetcher_{contents_, restorer_, contents_.policy->step_history()};
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
