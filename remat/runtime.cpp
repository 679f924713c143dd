#include "remat/runtime.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "allocator/base/check.h"
#include "remat/locked_storage.h"
#include "remat/memory_uses.h"
#include "remat/operator_call.h"
#include "remat/restore/storage_locks.h"

namespace tidepool::remat {

Runtime::Runtime(BudgetedAllocator& allocator, Backend& backend, const RuntimeConfig& config,
                 std::unique_ptr<Tier> tier)
    : contents_(allocator, backend, config.policy, config.seed, std::move(tier)),
      limits_(config.limits, contents_, observation_),
      chaos_(config.chaos, config.seed, contents_.residency, restorer_),
      calls_{
          contents_,   restorer_,
          prefetcher_, versions_,
          limits_,     observation_,
          chaos_,      config.step_history_at_once ? contents_.policy->step_history() : nullptr} {
  if (config.compares_restored) contents_.residency.check.enable_refusals();
  if (!config.offloads_roots) contents_.residency.keep_roots();
  if (!config.notices_raw_writes) {
    contents_.residency.copy_no_roots_ahead();
    contents_.residency.watch.watch_roots();
  }
  if (!config.prefetches) prefetcher_.disable();
  allocator.set_reclaimer(this);
}

Runtime::~Runtime() {
  DeviceLock lock(mutex());
  contents_.clear();
}

DeviceMutex& Runtime::mutex() const { return contents_.allocator.mutex(); }

Storage* Runtime::track(void* framework_storage, void* address, size_t bytes, RootReason reason) {
  Owner& owner = contents_.allocator.owner_slot(address);
  if (owner != nullptr) return nullptr;
  Storage* storage = contents_.store.new_storage(framework_storage, address, bytes, reason);
  storage->last_access = contents_.residency.now();
  owner = storage;
  return storage;
}

Storage* Runtime::find(const void* address) const {
  if (!contents_.allocator.contains(address)) return nullptr;
  return static_cast<Storage*>(contents_.allocator.owner(address));
}

void Runtime::free(void* address) {
  DeviceLock lock(mutex());
  if (Storage* storage = find(address); storage != nullptr) {
    if (end_storage(storage, address)) return;
  }
  contents_.allocator.free_locked(address);
}

void Runtime::on_evicted_storage_freed(Storage* storage) {
  DeviceLock lock(mutex());
  TIDEPOOL_CHECK(storage->evicted && !storage->dead, "evicted %d, dead %d", storage->evicted,
                 storage->dead);
  end_storage(storage, nullptr);
}

bool Runtime::end_storage(Storage* storage, void* address) {
  contents_.backend.forget(*storage);
  if (contents_.foreseen.enabled()) [[unlikely]]
    prefetcher_.forget(*storage);
  if (JobObserver* listener = observation_.listener()) [[unlikely]]
    listener->died(*storage);
  return versions_.end_storage(storage, address);
}

void Runtime::lock_storage(Storage* storage) { contents_.lock(*storage); }

void Runtime::unlock_storage(Storage* storage) {
  contents_.unlock(*storage);
  contents_.queue.something_changed();
}

void Runtime::make_resident(std::span<Storage* const> storages, DeviceLock& lock) {
  ReplayStreamOrder& order = contents_.replay_order;
  const auto is_evicted = [](const Storage* storage) { return storage->evicted; };
  if (std::any_of(storages.begin(), storages.end(), is_evicted)) order.before_unasked_work(lock);
  restorer_.make_resident(storages, lock);
  for (const Storage* storage : storages) {
    if (!storage->dead) order.before_unseen_use(*storage->current, lock);
  }
}

void Runtime::cut(Storage* storage, RootReason reason, DeviceLock& lock) {
  if (JobObserver* listener = observation_.listener()) [[unlikely]]
    listener->cut(*storage);
  if (!storage->dead) cut_unasked(*storage, reason, lock);
}

// No operator asks for it: whoever gets the address may write on a stream that the job has ordered
// already.
void Runtime::cut_unasked(Storage& storage, RootReason reason, DeviceLock& lock) {
  ReplayStreamOrder& order = contents_.replay_order;
  order.before_unseen_use(*storage.current, lock);
  versions_.cut(storage, reason, lock);
  if (!storage.dead) order.before_unseen_use(*storage.current, lock);
}

void Runtime::escape(Storage* storage, DeviceLock& lock) { let_escape(*storage, true, lock); }

void Runtime::escape_for_a_while(Storage* storage, DeviceLock& lock) {
  let_escape(*storage, false, lock);
}

void Runtime::let_escape(Storage& storage, bool for_good, DeviceLock& lock) {
  std::optional<LockedStorage> locked;
  if (!storage.escaped) {
    locked.emplace(*this, &storage);
    Storage* const one = &storage;
    if (storage.evicted) make_resident({&one, 1}, lock);
    if (!storage.dead) cut_unasked(storage, RootReason::kEscaped, lock);
  }
  if (storage.escaped) {  // before, or by another thread meanwhile
    const bool stays = for_good || storage.users_left == 0;
    storage.users_left = stays ? 0 : storage.users_left + 1;  // too many to be counted: it stays
    return;
  }
  storage.escaped = true;
  storage.users_left = for_good ? 0 : 1;
  JobObserver* const listener = observation_.listener();
  if (listener != nullptr && !storage.dead) [[unlikely]]
    listener->cut(storage);
  ++escapes_;
}

void Runtime::leave_alone(Storage* storage) {
  if (storage->users_left > 0 && --storage->users_left == 0) storage->escaped = false;
}

bool Runtime::evict_storage(Storage* storage) {
  return contents_.residency.evict_and_free(*storage);
}

size_t Runtime::evict_everything() { return contents_.residency.evict_everything(1, nullptr); }

void Runtime::chaos_at_allocation() { chaos_.at_allocation(calls_.operators_seen); }

void Runtime::end_step() {
  DeviceLock lock(mutex());
  if (calls_.step_history != nullptr) {
    const uint32_t step = calls_.step_history->step();
    calls_.step_history->end_step(contents_.residency.now());
    const bool had_calls = calls_.step_history->step() != step;
    if (contents_.foreseen.enabled() && had_calls) prefetcher_.end_step();
  } else if (contents_.residency.evictions > 0) {
    calls_.step_history = contents_.policy->step_history();
  }
  if (observation_.has_observer()) tell_step_ended();
  limits_.cut_aged(++calls_.step);
  contents_.settle_prices();
  contents_.dependent_cut.sweep(DependentCut::Spares::kStay);
  // Memory is short, and at the end of a step hardly anything is in use. Compaction looks at all
  // blocks, so it comes only after a few evictions, which do so, too: optimizers may step once for
  // each parameter.
  constexpr uint64_t kEvictions = 8;
  const uint64_t evictions = contents_.residency.evictions;
  if (evictions - evictions_compacted_ < kEvictions) return;
  evictions_compacted_ = evictions;
  contents_.allocator.compact(lock, contents_.replay_order.stream());
}

void Runtime::tell_step_ended() {
  StepEnd end;
  const StepHistory* const history = calls_.step_history;
  if (history != nullptr) {
    end.step = history->step() - 1;
    end.repeated = history->repeated();
    end.fingerprint = history->last_fingerprint();
    end.expected = history->expected_fingerprint();
    end.outputs = history->last_outputs();
    end.foreseen = history->last_foreseen();
    end.form = history->last_form();
    end.form_repeated = history->form_repeated();
  }
  end.evictions = contents_.residency.evictions;
  end.computed_ns = contents_.residency.now();
  end.replayed_ns = restorer_.statistics.replayed_cost_ns;
  end.waited_ns = offloads() ? tier_wait_ns() : 0;
  end.prices = contents_.allocator.prices();
  end.allocated_bytes = contents_.allocator.allocated_bytes();
  observation_.step_ended(end, contents_.store);
}

void Runtime::set_observer(JobObserver* observer) {
  DeviceLock lock(mutex());
  observation_.set(observer);
}

void Runtime::note_use(Storage& storage, StreamId stream) {
  if (JobObserver* listener = observation_.listener()) [[unlikely]]
    listener->used(storage, stream);
}

StepHistory Runtime::step_history() const {
  DeviceLock lock(mutex());
  return calls_.step_history != nullptr ? *calls_.step_history : StepHistory();
}

void Runtime::learn(const StepHistory& step_history) {
  DeviceLock lock(mutex());
  if (calls_.step_history != nullptr) *calls_.step_history = step_history;
}

void Runtime::learn_departures(const Runtime& other) {
  DeviceLock lock(mutex());
  prefetcher_.learn(other.prefetcher_);
}

void Runtime::set_plan(const StepPlan& plan) { contents_.policy->set_plan(plan); }

void Runtime::post_plan(StepPlan plan) { contents_.policy->post_plan(std::move(plan)); }

void Runtime::set_recording(bool on) {
  DeviceLock lock(mutex());
  calls_.recording.store(on, std::memory_order_relaxed);
  if (!on) limits_.cut_all(RootReason::kRecordingOff);
}

bool Runtime::recording() const { return calls_.recording.load(std::memory_order_relaxed); }

bool Runtime::has_lineage() const { return contents_.store.records() > 0; }

ListCut Runtime::list_cut(ListOperator kind, size_t result_bytes) const {
  const size_t live_bytes =
      contents_.allocator.allocated_bytes() + contents_.residency.absent_bytes() + result_bytes;
  return remat::list_cut(kind, contents_.allocator.limit_bytes(), live_bytes, offloads_roots());
}

void Runtime::pause_evicting(DeviceLock& lock) { restore_and_freeze(lock, true); }

// `all`: also what has a copy, and needs no operator to be restored.
void Runtime::restore_and_freeze(DeviceLock& lock, bool all) {
  contents_.residency.freeze();
  StorageLocks evicted(contents_);
  contents_.store.for_each_storage([&](Storage& storage) {
    if (storage.evicted && !storage.dead && (all || !storage.current->copied)) {
      evicted.add(storage);
    }
  });
  try {
    give_up_copies_ahead(lock);
    if (!evicted.all().empty()) contents_.replay_order.before_unasked_work(lock);
    restorer_.restore(evicted.all(), lock);  // leaves out what is being freed
    for (const Storage* storage : evicted.all()) {
      if (!storage->dead) contents_.replay_order.before_unseen_use(*storage->current, lock);
    }
  } catch (...) {
    contents_.residency.thaw();
    contents_.queue.something_changed();
    throw;
  }
  evicted.release();
  contents_.queue.something_changed();
}

// Bytes may be written unseen from now on: not before the copies have read them, and what was
// copied does not stand for them any more.
void Runtime::give_up_copies_ahead(DeviceLock& lock) {
  Copies& copies = contents_.residency.copies;
  while (Value* const value = copies.last_ahead()) {
    const StreamUse use = value->hidden_use;
    copies.drop(*value);
    if (use.epoch > 0) contents_.allocator.wait_for(use, lock);
  }
}

std::span<const Operand> Runtime::running_operands() const {
  std::span<const Operand> operands;
  contents_.queue.for_each_holder([&](const RestorationQueue::Holder& holder) {
    const bool is_mine = holder.thread == RestorationQueue::this_thread() && holder.call != nullptr;
    if (is_mine && operands.empty()) operands = holder.call->operands();
  });
  return operands;
}

size_t Runtime::threads() const { return contents_.queue.threads(); }

void Runtime::mark_gradients() {
  DeviceLock lock(mutex());
  contents_.store.for_each_storage([&](const Storage& storage) {
    if (storage.dead || storage.backend_notes == nullptr) return;
    Storage* gradient = contents_.backend.gradient_of(storage, contents_.queue.threads());
    if (gradient != nullptr && gradient->role == Role::kOther) gradient->role = Role::kGradient;
  });
}

bool Runtime::has_restored() const {
  return contents_.residency.rematerializations > 0 || contents_.residency.moves > 0;
}

bool Runtime::has_evicted() const {
  bool found = false;
  contents_.store.for_each_storage([&](const Storage& storage) {
    // Contents that are being moved do not count, because they will be back at once.
    found |= storage.evicted && !storage.dead && !storage.current->available();
  });
  return found;
}

void Runtime::resume_evicting() { contents_.residency.thaw(); }

void Runtime::begin_settling(DeviceLock& lock) {
  restore_and_freeze(lock, false);
  ++calls_.settlements;
}

void Runtime::end_settling() {
  ++calls_.settlements;
  limits_.cut_all(RootReason::kSettled);
  resume_evicting();
}

bool Runtime::sweep_is_due() const { return contents_.dependent_cut.sweep_is_due(); }

void Runtime::before_fork() {
  if (Tier* tier = contents_.residency.copies.tier()) tier->before_fork();
}

void Runtime::after_fork_in_parent() {
  if (Tier* tier = contents_.residency.copies.tier()) tier->after_fork_in_parent();
}

void Runtime::become_forked_child() {
  observation_.become_forked_child();
  contents_.residency.freeze();
  contents_.queue.become_forked_child();
  prefetcher_.disable();
  if (Tier* tier = contents_.residency.copies.tier()) tier->become_forked_child();
}

void Runtime::check_invariants() {
  DeviceLock lock(mutex());
  const bool quiet = contents_.queue.is_quiet();
  contents_.store.check_invariants(quiet);
  contents_.residency.check_invariants(contents_.store);
  contents_.dependent_cut.check_invariants();
  contents_.queue.check_invariants();
  contents_.policy->check_invariants();
  contents_.foreseen.check_invariants();
  if (!quiet) return;
  contents_.store.for_each_value([](const Value& value) {
    TIDEPOOL_CHECK(value.uses == 0 && value.locks == 0, "%u uses and %u locks are left over",
                   value.uses, value.locks);
    TIDEPOOL_CHECK(value.kept == nullptr || value.producer == nullptr, "a ghost is left over");
  });
}

void Runtime::begin_search() { contents_.policy->begin_search(); }

bool Runtime::asks_for_free_beside() const { return contents_.policy->asks_for_free_beside(); }

bool Runtime::allows_shortlists() const { return contents_.policy->allows_shortlists(); }

Preference Runtime::preference() const { return contents_.policy->preference(); }

Price Runtime::price(Owner owner, size_t free_beside_bytes) {
  Storage& storage = *static_cast<Storage*>(owner);
  if (prefetcher_.makes_room()) [[unlikely]] {
    if (!prefetcher_.has_leave(storage)) return Price::blocked();
    return contents_.policy->fixed(prefetcher_.price(storage));
  }
  if (!contents_.residency.evictable(storage)) return Price::blocked();
  return contents_.policy->fixed(contents_.residency.price(storage, free_beside_bytes));
}

bool Runtime::evictable(Owner owner) {
  return contents_.residency.evictable(*static_cast<const Storage*>(owner));
}

double Runtime::price_per_byte(Owner owner, size_t free_beside_bytes) {
  Storage& storage = *static_cast<Storage*>(owner);
  if (!contents_.residency.evictable(storage)) return kNever;
  return contents_.residency.price(storage, free_beside_bytes) /
         static_cast<double>(storage.current->bytes);
}

Price Runtime::price_of_time(const Storage& storage, uint64_t ns) const {
  const auto price =
      contents_.policy->time_price(ns, contents_.residency.circumstances(storage, 0));
  return price ? contents_.policy->fixed(*price) : Price::blocked();
}

Price Runtime::move_price(Owner owner) {
  const Storage& storage = *static_cast<Storage*>(owner);
  if (!mover_.movable(storage)) return Price::blocked();
  return price_of_time(storage, mover_.cost_ns(storage.current->bytes));
}

// Nothing is moved for policies without a price of time.
uint64_t Runtime::copy_ns(size_t bytes) const {
  return contents_.policy->time_price(1, {}) ? mover_.cost_ns(bytes) : 0;
}

uint64_t Runtime::time_price(Owner owner, uint64_t ns) {
  return price_of_time(*static_cast<Storage*>(owner), ns).value;
}

bool Runtime::move(DeviceLock& lock, Owner owner, void* to) {
  return mover_.move(*static_cast<Storage*>(owner), to, lock);
}

bool Runtime::evict(Owner owner) {
  Storage& storage = *static_cast<Storage*>(owner);
  if (!prefetcher_.enabled()) [[likely]]
    return contents_.residency.evict(storage);
  const bool ahead = contents_.residency.copies.is_ahead(*storage.current);
  if (!contents_.residency.evict(storage)) return false;
  if (storage.current->copied) prefetcher_.left(storage, ahead);
  return true;
}

bool Runtime::give_up_or_wait(DeviceLock& lock) {
  // What could be evicted is, so that spare roots which no evicted value needs are of no use now.
  if (contents_.dependent_cut.sweep(DependentCut::Spares::kGo) > 0) return true;
  if (contents_.residency.offload_retained() > 0) return true;
  if (restorer_.give_up_ghost()) return true;
  if (contents_.backend.give_up_memory(lock)) return true;
  return contents_.queue.wait_for_room(lock);
}

RuntimeStatistics Runtime::statistics() const {
  DeviceLock lock(mutex());
  const RestorationStatistics& restored = restorer_.statistics;
  RuntimeStatistics out;
  if (calls_.step_history != nullptr) out.foresight = calls_.step_history->foresight();
  out.operators_seen = calls_.operators_seen;
  out.operators_recorded = calls_.operators_recorded;
  out.operators_replayed = restored.operators_replayed;
  out.evictions = contents_.residency.evictions;
  out.evicted_bytes = contents_.residency.evicted_bytes;
  out.offloads = contents_.residency.offloads;
  out.offloaded_bytes = contents_.residency.offloaded_bytes;
  out.fetches = restored.copies_loaded;
  out.fetched_bytes = restored.loaded_bytes;
  out.prefetches = prefetcher_.statistics.prefetches;
  out.prefetch_hits = prefetcher_.statistics.hits;
  out.prefetch_wasted_bytes = prefetcher_.statistics.wasted_bytes;
  out.written_behind_bytes = contents_.residency.copies.ahead.copied_bytes;
  out.write_behind_wasted_bytes = contents_.residency.copies.ahead.wasted_bytes;
  if (const Tier* tier = contents_.residency.copies.tier()) out.tier = tier->statistics();
  out.rematerializations = contents_.residency.rematerializations;
  out.contents_compared = contents_.residency.check.compared;
  out.contents_different = contents_.residency.check.different;
  out.chaos_coverage = contents_.residency.check.coverage();
  out.ghosts = restored.ghosts;
  out.retained = contents_.dependent_cut.retained;
  out.escapes = escapes_;
  out.plans = restored.plans;
  out.longest_plan = restored.longest_plan;
  out.plan_peak_bytes = restored.plan_peak_bytes;
  out.lean_plans = restored.lean_plans;
  out.clones = restored.clones;
  out.snapshots = versions_.snapshots;
  out.unseen_writes = contents_.residency.watch.unseen_writes;
  out.operand_checks = calls_.operand_checks;
  out.dependent_checks = contents_.dependent_cut.checks;
  out.replay_ns = restored.replay_ns;
  out.bookkeeping_ns = restored.planning_ns;
  out.values = contents_.store.values();
  out.records = contents_.store.records();
  out.storages = contents_.store.storages();
  out.lineage_bytes = contents_.store.bytes();
  out.bookkeeping_bytes = limits_.bookkeeping_bytes();
  for (const Value* value : contents_.residency.kept()) {
    if (value->producer == nullptr) out.retained_bytes += value->bytes;
  }
  contents_.store.for_each_storage([&](const Storage& storage) {
    if (storage.current == nullptr || storage.current->producer != nullptr) return;
    out.root_bytes[static_cast<size_t>(storage.current->reason)] += storage.current->bytes;
  });
  return out;
}

void Runtime::tell_uses(std::span<HeldBlock> blocks) {
  const MemoryUses uses(contents_, restorer_);
  for (HeldBlock& block : blocks) block.use = uses.of(block);
}

}  // namespace tidepool::remat
