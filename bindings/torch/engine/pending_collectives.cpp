#include "bindings/torch/engine/pending_collectives.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>

#include "bindings/torch/engine/engine.h"
#include "bindings/torch/storage/storage_access.h"
#include "bindings/torch/storage/tripwire.h"

namespace tidepool::torch_glue {

CollectiveUses::~CollectiveUses() {
  for (const Use& use : uses_) drop_weak_hold(use.storage);
}

void CollectiveUses::add(remat::Storage& storage) {
  auto* const held = static_cast<c10::StorageImpl*>(storage.framework_storage);
  uses_.push_back({held, &storage});
  hold_weakly(held);
}

void CollectiveUses::end(Engine& engine) {
  DeviceLock lock(engine.mutex());
  for (const Use& use : uses_) {
    // If it has other bytes by now, or none, another remat::Storage stands for it, or none.
    const c10::DataPtr& data = use.storage->_mutable_data_ptr_no_checks();
    if (data.get_deleter() != &delete_block || data.get() == nullptr) continue;
    remat::Storage* const tracked = engine.runtime().find(data.get());
    if (tracked == nullptr || tracked != use.tracked) continue;
    engine.runtime().leave_alone(tracked);
    tripwire::rearm(*tracked);
  }
}

PendingCollectives& PendingCollectives::instance() {
  static auto* const all = new PendingCollectives;
  return *all;
}

void PendingCollectives::add(Engine& engine, c10::intrusive_ptr<torch::CustomClassHolder> work,
                             CollectiveUses&& uses) {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  try {
    future = static_cast<c10d::Work&>(*work).getFuture();
  } catch (const std::exception&) {  // it has none
  }
  MutexLock guard(mutex_);
  entries_.push_back({&engine, std::move(work), std::move(future), std::move(uses)});
  any_.store(true, std::memory_order_relaxed);
}

// The process group takes a lock of its own, under which it may call whoever watches operators.
PendingCollectives::State PendingCollectives::Entry::state() const {
  if (future != nullptr) {
    if (!future->completed()) return State::kPending;
    return future->hasError() ? State::kFailed : State::kDone;
  }
  auto& of_group = static_cast<c10d::Work&>(*work);
  try {
    if (!of_group.isCompleted()) return State::kPending;
    return of_group.isSuccess() ? State::kDone : State::kFailed;
  } catch (const std::exception&) {
    return State::kFailed;
  }
}

void PendingCollectives::end_completed() {
  std::vector<Entry> entries;
  {
    MutexLock guard(mutex_);
    entries.swap(entries_);
    any_.store(false, std::memory_order_relaxed);
  }
  const auto pending = std::partition(entries.begin(), entries.end(), [](Entry& entry) {
    const State state = entry.state();
    if (state == State::kDone) entry.uses.end(*entry.engine);
    return state != State::kPending;
  });
  if (pending == entries.end()) return;
  MutexLock guard(mutex_);
  entries_.insert(entries_.end(), std::make_move_iterator(pending),
                  std::make_move_iterator(entries.end()));
  any_.store(true, std::memory_order_relaxed);
}

void CollectiveCall::use(remat::Runtime& runtime, remat::Storage& storage, DeviceLock& lock) {
  runtime.escape_for_a_while(&storage, lock);
  if (storage.dead) return;
  tripwire::disarm(static_cast<c10::StorageImpl*>(storage.framework_storage));
  uses_.add(storage);
}

void CollectiveCall::returned(Engine& engine, const c10::IValue& work) {
  ++t_started;
  if (uses_.empty() || !work.isObject()) return;  // of what there is no sign, it stays for good
  PendingCollectives::instance().add(engine, work.toObject()->getSlot(0).toCapsule(),
                                     std::move(uses_));
}

}  // namespace tidepool::torch_glue
