// Runtime::State: the parts of the runtime wired together, and what concerns several of them:
// versions of contents, cut, the end of storages. Private to runtime*.cpp and operator_call.cpp.
// All functions need the device's lock held; those that take a DeviceLock& may release it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "remat/limits.h"
#include "remat/policies/policy.h"
#include "remat/policies/step_history.h"
#include "remat/restore/dependent_cut.h"
#include "remat/restore/mover.h"
#include "remat/restore/residency.h"
#include "remat/restore/restoration_queue.h"
#include "remat/restore/restorer.h"
#include "remat/runtime.h"

namespace tidepool::remat {

struct Runtime::State {
  State(BudgetedAllocator& the_allocator, Backend& the_backend, const RuntimeConfig& the_config);
  ~State() { residency.set_policy(nullptr); }

  BudgetedAllocator& allocator;
  Backend& backend;
  const RuntimeConfig config;
  DeviceMutex& mutex;
  Residency residency;
  LineageStore store;
  std::unique_ptr<Policy> policy;
  StepHistory* step_history;  // the policy's; nullptr: it has none, or does not look ahead yet
  JobObserver* observer = nullptr;
  JobObserver* listener = nullptr;  // the observer, while it wants to hear of more than steps
  DependentCut dependent_cut;
  RestorationQueue queue;
  ReplayStreamOrder replay_order;
  Restorer restorer;
  Mover mover;
  LimitKeeper limits;
  std::atomic<bool> recording{true};
  uint64_t step = 0;     // of the job
  uint64_t settlements = 0;          // beginnings and ends of them; see Runtime::begin_settling()
  uint64_t evictions_compacted = 0;  // by the last compaction
  uint64_t random;       // state of the generator behind chaos
  uint64_t operators_seen = 0, operators_recorded = 0, escapes = 0, snapshots = 0;
  uint64_t operand_checks = 0;  // of operands that calls write, before they write

  void lock_storage(Storage& storage) { ++storage.locks; }
  void unlock_storage(Storage& storage) {
    if (--storage.locks == 0 && storage.dead) [[unlikely]] store.free_storage(&storage);
  }

  // What is kept beside contents and the store's lineage.
  size_t side_bytes() const;

  // Restores, and has the calling thread's stream wait for hidden work on them.
  void make_resident(std::span<Storage* const> storages, DeviceLock& lock);

  // `storage`, resident and locked, is about to get other contents: whoever reads the present ones
  // is finished or protected when this returns, and its value is a fresh root for `reason`.
  void cut(Storage& storage, RootReason reason, DeviceLock& lock);

  // True if the present contents may be overwritten: no plan reads them, and they have a producer
  // or no readers.
  static bool may_be_written(const Storage& storage) {
    const Value& value = *storage.current;
    return value.uses == 0 && (value.producer != nullptr || value.consumers == nullptr);
  }

  // Waits for a plan that reads the contents. True if it released the lock.
  bool wait_until_unread(Storage& storage, DeviceLock& lock);

  // The contents were changed by an operator that began when nobody read them; whoever has read
  // them since did so in a race, and keeps what it has got.
  void abandon_readers(Storage& storage);

  // Enters a record whose operator has run into its inputs' lists of readers.
  void link(Record& record);

  // The contents have changed: a new version without lineage, or made by output 0 of `record`.
  void start_root_version(Storage& storage, RootReason reason);
  void start_recorded_version(Storage& storage, Record& record);

  // The framework's storage is gone, with its bytes at `address` (nullptr: it was evicted). True:
  // the bytes are kept.
  bool end_storage(Storage* storage, void* address);

  Circumstances circumstances(const Storage& storage, size_t free_beside_bytes) const {
    const uint64_t staleness_ns = residency.now() - storage.last_access;
    return {staleness_ns > 0 ? staleness_ns : 1, free_beside_bytes};
  }

  // The observer hears of it, and of all that lives where it begins to listen.
  void tell_step_ended();

  // Chaos at an operator or an allocation.
  void cause_chaos();

 private:
  void* protect_dependents(Storage& storage, DeviceLock& lock);
  void* snapshot(Storage& storage, DeviceLock& lock);
  void replace_value(Storage& storage, Value* fresh, void* snapshot);
};

}  // namespace tidepool::remat
