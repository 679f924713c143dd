#include "remat/runtime_state.h"

#include <utility>

#include "absl/container/inlined_vector.h"
#include "remat/lineage/mutants.h"
#include "remat/restore/chaos_odds.h"

namespace tidepool::remat {
namespace {

// Storages kept where they are for a scope. Requires: lock held at both ends.
class StorageLocks {
 public:
  explicit StorageLocks(LineageStore& store) : store_(store) {}
  ~StorageLocks() { release(); }
  StorageLocks(const StorageLocks&) = delete;
  StorageLocks& operator=(const StorageLocks&) = delete;

  void add(Storage& storage) {
    ++storage.locks;
    storages_.push_back(&storage);
  }
  void release() {
    for (Storage* storage : storages_) {
      if (--storage->locks == 0 && storage->dead) store_.free_storage(storage);
    }
    storages_.clear();
  }
  std::span<Storage* const> all() const { return {storages_.data(), storages_.size()}; }

 private:
  LineageStore& store_;
  absl::InlinedVector<Storage*, 8> storages_;
};

}  // namespace

Runtime::State::State(BudgetedAllocator& the_allocator, Backend& the_backend,
                      const RuntimeConfig& the_config)
    : allocator(the_allocator),
      backend(the_backend),
      config(the_config),
      mutex(the_allocator.mutex()),
      residency(allocator, backend),
      store(residency),
      policy(make_policy(config.policy, store, config.seed)),
      step_history(config.step_history_at_once ? policy->step_history() : nullptr),
      dependent_cut(store, residency),
      queue(backend),
      replay_order(allocator, backend),
      restorer(allocator, backend, store, residency, dependent_cut, queue, replay_order),
      mover(allocator, backend, store, residency, dependent_cut, queue, replay_order),
      limits(config.limits, backend, store, residency, [this] { return side_bytes(); }),
      random(config.seed) {
  residency.set_policy(policy.get());
  if (config.chaos != Chaos::kNone) residency.check.enable();
}

size_t Runtime::State::side_bytes() const {
  return residency.bookkeeping_bytes() + policy->bookkeeping_bytes() + backend.side_bytes() +
         (observer != nullptr ? observer->bookkeeping_bytes() : 0);
}

void Runtime::State::make_resident(std::span<Storage* const> storages, DeviceLock& lock) {
  restorer.restore(storages, lock);
  for (const Storage* storage : storages) {
    if (!storage->dead && storage->evicted) {
      throw RestorationError("cannot restore a storage that is being freed");
    }
  }
  const StreamId stream = replay_order.stream();
  for (const Storage* storage : storages) {
    if (!storage->dead) replay_order.before_use(*storage->current, stream, lock);
  }
}

bool Runtime::State::wait_until_unread(Storage& storage, DeviceLock& lock) {
  bool waited = false;
  while (!storage.dead && storage.current->uses > 0 && queue.is_taken() && !queue.is_my_turn()) {
    queue.take_turn(lock);
    queue.end_turn();
    waited = true;
  }
  return waited;
}

void Runtime::State::replace_value(Storage& storage, Value* fresh, void* snapshot) {
  Value* old = std::exchange(storage.current, fresh);
  old->storage = nullptr;
  fresh->storage = &storage;
  storage.above_epoch = storage.below_epoch = 0;
  if (snapshot != nullptr) residency.keep(*old, snapshot);
  if (old->consumers != nullptr && old->kept == nullptr) residency.availability_changed(*old);
  store.release(old);
}

void Runtime::State::abandon_readers(Storage& storage) {
  const Value& present = *storage.current;
  if (present.producer != nullptr || present.consumers == nullptr) return;
  Dependents found = dependent_cut.dependents(present);
  found.evicted.clear();
  dependent_cut.cut_dependents(found, RootReason::kLostRoot);
}

void Runtime::State::start_root_version(Storage& storage, RootReason reason) {
  if (storage.escaped) reason = RootReason::kEscaped;
  residency.unlist(storage);
  storage.versions = 0;
  Value& present = *storage.current;
  if (present.producer == nullptr && present.references == 1) {  // nobody has read it
    present.reason = reason;
    return;
  }
  replace_value(storage, store.new_value(present.bytes, reason), nullptr);
}

void Runtime::State::link(Record& record) {
  store.link(record);
  for (size_t k = 0; k < record.edge_count; ++k) {
    // Freed or written by another thread while the operator ran.
    Value& input = *record.edges[k].value;
    if (!input.available()) [[unlikely]] residency.availability_changed(input);
  }
}

void Runtime::State::start_recorded_version(Storage& storage, Record& record) {
  storage.versions = record.overwrites ? 0 : storage.versions + 1;
  Value* fresh = store.new_value(storage.current->bytes, RootReason::kNone);
  store.set_producer(*fresh, record, 0);
  link(record);
  residency.check.made(*record.type);
  replace_value(storage, fresh, nullptr);
  residency.list(storage);
}

// Copies the contents to a block of their own, which becomes a retained root.
void* Runtime::State::snapshot(Storage& storage, DeviceLock& lock) {
  const size_t bytes = storage.current->bytes;
  const StreamId stream = replay_order.stream();
  replay_order.before_use(*storage.current, stream, lock);
  const void* from = storage.address;
  lock.unlock();
  void* copy = nullptr;
  try {
    copy = allocator.allocate(bytes, PlacementHint::kTransient, stream);
    backend.copy(copy, from, bytes);
  } catch (...) {
    if (copy != nullptr) allocator.free(copy);
    lock.lock();
    throw;
  }
  lock.lock();
  replay_order.after_use(*storage.current, stream);
  ++snapshots;
  return copy;
}

// Until no live value depends on the contents; returns a copy of them where memory does not suffice
// to restore what does. (Records that lead only to dying storages may be left.)
void* Runtime::State::protect_dependents(Storage& storage, DeviceLock& lock) {
  if (TIDEPOOL_MUTANT(2, write_not_cut)) return nullptr;
  StorageLocks locks(store);
  while (!storage.dead && storage.current->producer == nullptr) {
    const Dependents found = dependent_cut.dependents(*storage.current);
    if (found.evicted.empty()) {
      dependent_cut.cut_dependents(found, RootReason::kLostRoot);
      return nullptr;
    }
    for (Value* value : found.evicted) locks.add(*value->storage);
    try {
      restorer.restore(locks.all(), lock);
    } catch (const OutOfMemory&) {
      locks.release();
      return snapshot(storage, lock);
    }
    wait_until_unread(storage, lock);
  }
  return nullptr;
}

void Runtime::State::cut(Storage& storage, RootReason reason, DeviceLock& lock) {
  wait_until_unread(storage, lock);
  if (storage.dead) return;
  replay_order.before_use(*storage.current, replay_order.stream(), lock);
  if (storage.dead) return;
  void* copy = nullptr;
  if (storage.current->producer == nullptr) copy = protect_dependents(storage, lock);
  if (copy != nullptr) {
    // While it was made, another thread may have begun to replay what reads the present bytes.
    wait_until_unread(storage, lock);
    if (storage.dead || storage.current->consumers == nullptr) {
      allocator.free_locked(copy);
    } else {
      residency.unlist(storage);
      storage.versions = 0;
      replace_value(storage, store.new_value(storage.current->bytes, reason), copy);
      dependent_cut.make_sweep_due();
    }
  }
  if (!storage.dead) start_root_version(storage, reason);
}

void Runtime::State::tell_step_ended() {
  StepEnd end;
  if (step_history != nullptr) {
    end.step = step_history->step() - 1;
    end.repeated = step_history->repeated();
    end.fingerprint = step_history->last_fingerprint();
    end.expected = step_history->expected_fingerprint();
    end.outputs = step_history->last_outputs();
  }
  end.evictions = residency.evictions;
  end.computed_ns = residency.now();
  end.replayed_ns = restorer.statistics.replayed_cost_ns;
  end.prices = allocator.prices();
  end.allocated_bytes = allocator.allocated_bytes();
  const bool listened = listener != nullptr;
  listener = observer->step_ended(end) ? observer : nullptr;
  if (listened || listener == nullptr) return;
  store.for_each_storage([&](Storage& storage) {
    if (!storage.dead) listener->lives(storage);
  });
}

bool Runtime::State::end_storage(Storage* storage, void* address) {
  if (listener != nullptr) [[unlikely]] listener->died(*storage);
  Value& value = *std::exchange(storage->current, nullptr);
  residency.unlist(*storage);
  storage->dead = true;
  bool kept = false;
  const bool was_available = address != nullptr && !storage->writing;
  value.storage = nullptr;
  if (was_available) {
    if (value.uses > 0) {
      residency.keep(value, address);
      kept = true;
    } else if (value.producer == nullptr && value.consumers != nullptr) {
      kept = dependent_cut.retain_or_cut(value, address);
    }
  } else {
    // Left over from a move that found the storage dying.
    if (value.kept != nullptr && value.producer != nullptr && value.uses == 0 && value.locks == 0) {
      residency.free_kept(value);
    }
    dependent_cut.make_sweep_due();
  }
  if (!kept && value.consumers != nullptr) residency.availability_changed(value);
  if (!was_available && value.consumers == nullptr) residency.availability_changed(value);
  store.release(&value);
  if (storage->locks == 0) store.free_storage(storage);
  queue.something_changed();
  return kept;
}

void Runtime::State::cause_chaos() {
  uint64_t odds = config.chaos == Chaos::kRandom ? 3 : 1;
  if (config.chaos == Chaos::kBounded) {
    odds = chaos_odds(operators_seen, restorer.statistics.operators_replayed, &random);
  }
  if (odds > 0) residency.evict_everything(odds, &random);
}

}  // namespace tidepool::remat
