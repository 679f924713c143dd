#include "remat/runtime.h"

#include <utility>

#include "allocator/base/check.h"
#include "remat/lineage/mutants.h"
#include "remat/operator_call.h"
#include "remat/runtime_state.h"

namespace tidepool::remat {

Runtime::Runtime(BudgetedAllocator& allocator, Backend& backend, const RuntimeConfig& config)
    : state_(std::make_unique<State>(allocator, backend, config)) {
  allocator.set_reclaimer(this);
}

Runtime::~Runtime() {
  DeviceLock lock(state_->mutex);  // retained roots go back to the allocator
  state_.reset();
}

DeviceMutex& Runtime::mutex() { return state_->mutex; }

Storage* Runtime::track(void* backend_storage, void* address, size_t bytes, RootReason reason) {
  Owner& owner = state_->allocator.owner_slot(address);
  if (owner != nullptr) return nullptr;
  Storage* storage = state_->store.new_storage(backend_storage, address, bytes, reason);
  storage->last_access = state_->residency.now();
  owner = storage;
  return storage;
}

Storage* Runtime::find(const void* address) const {
  if (!state_->allocator.contains(address)) return nullptr;
  return static_cast<Storage*>(state_->allocator.owner(address));
}

void Runtime::free(void* address) {
  DeviceLock lock(state_->mutex);
  if (Storage* storage = find(address); storage != nullptr) {
    state_->backend.forget(*storage);
    if (state_->end_storage(storage, address)) return;
  }
  state_->allocator.free_locked(address);
}

void Runtime::on_evicted_storage_freed(Storage* storage) {
  DeviceLock lock(state_->mutex);
  TIDEPOOL_CHECK(storage->evicted && !storage->dead, "evicted %d, dead %d", storage->evicted,
                 storage->dead);
  state_->backend.forget(*storage);
  state_->end_storage(storage, nullptr);
}

void Runtime::lock_storage(Storage* storage) { state_->lock_storage(*storage); }

void Runtime::unlock_storage(Storage* storage) {
  state_->unlock_storage(*storage);
  state_->queue.something_changed();
}

void Runtime::make_resident(std::span<Storage* const> storages, DeviceLock& lock) {
  state_->make_resident(storages, lock);
}

void Runtime::cut(Storage* storage, RootReason reason, DeviceLock& lock) {
  if (state_->listener != nullptr) [[unlikely]] state_->listener->cut(*storage);
  state_->cut(*storage, reason, lock);
}

void Runtime::escape(Storage* storage, DeviceLock& lock) {
  if (storage->escaped) return;
  lock_storage(storage);
  try {
    if (storage->evicted) make_resident({&storage, 1}, lock);
    if (!TIDEPOOL_MUTANT(6, escape_not_cut)) state_->cut(*storage, RootReason::kEscaped, lock);
  } catch (...) {
    unlock_storage(storage);
    throw;
  }
  storage->escaped = !TIDEPOOL_MUTANT(6, escaped_evicted);
  if (state_->listener != nullptr && !storage->dead) [[unlikely]] state_->listener->cut(*storage);
  ++state_->escapes;
  unlock_storage(storage);
}

bool Runtime::evict_storage(Storage* storage) {
  return state_->residency.evict_and_free(*storage);
}

size_t Runtime::evict_everything() {
  return state_->residency.evict_everything(1, nullptr);
}

void Runtime::chaos_at_allocation() {
  const Chaos chaos = state_->config.chaos;
  if (chaos != Chaos::kNone && chaos != Chaos::kOperator) state_->cause_chaos();
}

void Runtime::end_step() {
  DeviceLock lock(state_->mutex);
  if (state_->step_history != nullptr) {
    state_->step_history->end_step(state_->residency.now());
  } else if (state_->residency.evictions > 0) {
    state_->step_history = state_->policy->step_history();
  }
  if (state_->observer != nullptr) state_->tell_step_ended();
  state_->limits.cut_aged(++state_->step);
  state_->dependent_cut.sweep();
  // Memory is short, and mostly hardly anything is in use now. It looks at all blocks, as every few
  // evictions do: optimizers may step once for each parameter.
  constexpr uint64_t kEvictions = 8;
  const uint64_t evictions = state_->residency.evictions;
  if (evictions - state_->evictions_compacted < kEvictions) return;
  state_->evictions_compacted = evictions;
  state_->allocator.compact(lock, state_->replay_order.stream());
}

void Runtime::set_observer(JobObserver* observer) {
  DeviceLock lock(state_->mutex);
  state_->observer = observer;
  state_->listener = observer != nullptr && observer->listens() ? observer : nullptr;
}

void Runtime::note_use(Storage& storage, StreamId stream) {
  if (state_->listener != nullptr) [[unlikely]] state_->listener->used(storage, stream);
}

void Runtime::learn_from(const Runtime& other) {
  if (state_->step_history == nullptr || other.state_->step_history == nullptr) return;
  learn(other.step_history());
}

StepHistory Runtime::step_history() const {
  DeviceLock lock(state_->mutex);
  return state_->step_history != nullptr ? *state_->step_history : StepHistory();
}

void Runtime::learn(const StepHistory& step_history) {
  DeviceLock lock(state_->mutex);
  if (state_->step_history != nullptr) *state_->step_history = step_history;
}

void Runtime::set_plan(const StepPlan& plan) { state_->policy->set_plan(plan); }

uint32_t Runtime::steps() const {
  DeviceLock lock(state_->mutex);
  return state_->step_history != nullptr ? state_->step_history->step() - 1 : 0;
}

bool Runtime::step_repeated() const {
  DeviceLock lock(state_->mutex);
  return state_->step_history != nullptr && state_->step_history->repeated();
}

uint64_t Runtime::last_fingerprint() const {
  DeviceLock lock(state_->mutex);
  return state_->step_history != nullptr ? state_->step_history->last_fingerprint() : 0;
}

void Runtime::set_recording(bool on) {
  DeviceLock lock(state_->mutex);
  state_->recording.store(on, std::memory_order_relaxed);
  if (!on) state_->limits.cut_all(RootReason::kRecordingOff);
}

bool Runtime::recording() const { return state_->recording.load(std::memory_order_relaxed); }

bool Runtime::has_lineage() const { return state_->store.records() > 0; }

void Runtime::pause_evicting(DeviceLock& lock) {
  state_->residency.freeze();
  std::vector<Storage*> evicted;
  state_->store.for_each_storage([&](Storage& storage) {
    if (storage.evicted && !storage.dead) evicted.push_back(&storage);
  });
  for (Storage* storage : evicted) lock_storage(storage);
  auto unlock = [&] {
    for (Storage* storage : evicted) unlock_storage(storage);
  };
  try {
    state_->restorer.restore(evicted, lock);  // leaves out what is being freed
  } catch (...) {
    unlock();
    state_->residency.thaw();
    throw;
  }
  unlock();
}

std::span<const Operand> Runtime::running_operands() const {
  std::span<const Operand> operands;
  state_->queue.for_each_holder([&](const RestorationQueue::Holder& holder) {
    const bool is_mine = holder.thread == RestorationQueue::this_thread() && holder.call != nullptr;
    if (is_mine && operands.empty()) operands = holder.call->operands();
  });
  return operands;
}

size_t Runtime::threads() const { return state_->queue.threads(); }

void Runtime::mark_gradients() {
  DeviceLock lock(state_->mutex);
  state_->store.for_each_storage([&](const Storage& storage) {
    if (storage.dead || storage.notes == nullptr) return;
    Storage* gradient = state_->backend.gradient_of(storage, state_->queue.threads());
    if (gradient != nullptr && gradient->role == Role::kOther) gradient->role = Role::kGradient;
  });
}

bool Runtime::has_restored() const {
  return state_->residency.rematerializations > 0 || state_->residency.moves > 0;
}

bool Runtime::has_evicted() const {
  bool found = false;
  state_->store.for_each_storage([&](const Storage& storage) {
    // What is being moved will be back at once.
    found |= storage.evicted && !storage.dead && !storage.current->available();
  });
  return found;
}

void Runtime::resume_evicting() { state_->residency.thaw(); }

void Runtime::begin_settling(DeviceLock& lock) {
  pause_evicting(lock);
  ++state_->settlements;
}

void Runtime::end_settling() {
  ++state_->settlements;
  state_->limits.cut_all(RootReason::kSettled);
  resume_evicting();
}

bool Runtime::sweep_is_due() const { return state_->dependent_cut.sweep_is_due(); }

void Runtime::become_forked_child() {
  state_->listener = nullptr;
  if (JobObserver* observer = std::exchange(state_->observer, nullptr)) observer->forked();
  state_->residency.freeze();
  state_->queue.become_forked_child();
}

void Runtime::check_invariants() const {
  DeviceLock lock(state_->mutex);
  const bool quiet = state_->queue.is_quiet();
  state_->store.check_invariants(quiet);
  state_->residency.check_invariants(state_->store);
  state_->dependent_cut.check_invariants();
  state_->queue.check_invariants();
  state_->policy->check_invariants();
  if (!quiet) return;
  state_->store.for_each_value([](const Value& value) {
    TIDEPOOL_CHECK(value.uses == 0 && value.locks == 0, "%u uses and %u locks are left over",
                   value.uses, value.locks);
    TIDEPOOL_CHECK(value.kept == nullptr || value.producer == nullptr, "a ghost is left over");
  });
}

void Runtime::begin_search() { state_->policy->begin_search(); }

bool Runtime::asks_for_free_beside() const { return state_->policy->asks_for_free_beside(); }

bool Runtime::allows_shortlists() const { return state_->policy->allows_shortlists(); }

Preference Runtime::preference() const { return state_->policy->preference(); }

Price Runtime::price(Owner owner, size_t free_beside_bytes) {
  Storage& storage = *static_cast<Storage*>(owner);
  if (!state_->residency.evictable(storage)) return Price::blocked();
  return state_->policy->fixed(
      state_->policy->price(storage, state_->circumstances(storage, free_beside_bytes)));
}

bool Runtime::evictable(Owner owner) {
  return state_->residency.evictable(*static_cast<const Storage*>(owner));
}

double Runtime::price_per_byte(Owner owner, size_t free_beside_bytes) {
  Storage& storage = *static_cast<Storage*>(owner);
  if (!state_->residency.evictable(storage)) return kNever;
  const double price =
      state_->policy->price(storage, state_->circumstances(storage, free_beside_bytes));
  return price / static_cast<double>(storage.current->bytes);
}

Price Runtime::price_of_time(const Storage& storage, uint64_t ns) const {
  const auto price = state_->policy->time_price(ns, state_->circumstances(storage, 0));
  return price ? state_->policy->fixed(*price) : Price::blocked();
}

Price Runtime::move_price(Owner owner) {
  const Storage& storage = *static_cast<Storage*>(owner);
  if (!state_->mover.movable(storage)) return Price::blocked();
  return price_of_time(storage, state_->mover.cost_ns(storage.current->bytes));
}

uint64_t Runtime::time_price(Owner owner, uint64_t ns) {
  return price_of_time(*static_cast<Storage*>(owner), ns).value;
}

bool Runtime::move(DeviceLock& lock, Owner owner, void* to) {
  return state_->mover.move(*static_cast<Storage*>(owner), to, lock);
}

bool Runtime::evict(Owner owner) {
  return state_->residency.evict(*static_cast<Storage*>(owner));
}

bool Runtime::wait_for_room(DeviceLock& lock) {
  if (state_->dependent_cut.sweep() > 0) return true;
  if (state_->backend.give_up_memory(lock)) return true;
  return state_->queue.wait_for_room(lock);
}

}  // namespace tidepool::remat
