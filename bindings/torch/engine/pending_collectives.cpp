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
    if (!holds_block(data)) continue;
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

void PendingCollectives::add(Engine& engine, c10::intrusive_ptr<c10::ivalue::Future> future,
                             CollectiveUses&& uses) {
  MutexLock guard(mutex_);
  if (entries_.size() >= kMost) return;
  entries_.push_back({&engine, std::move(future), std::move(uses)});
  any_.store(true, std::memory_order_relaxed);
}

void PendingCollectives::end_completed() {
  std::vector<Entry> entries;
  {
    MutexLock guard(mutex_);
    entries.swap(entries_);
    any_.store(false, std::memory_order_relaxed);
  }
  const auto pending = std::partition(entries.begin(), entries.end(), [](Entry& entry) {
    if (!entry.future->completed()) return false;
    if (!entry.future->hasError()) entry.uses.end(*entry.engine);
    return true;
  });
  if (pending == entries.end()) return;
  MutexLock guard(mutex_);
  entries_.insert(entries_.end(), std::make_move_iterator(pending),
                  std::make_move_iterator(entries.end()));
  any_.store(true, std::memory_order_relaxed);
}

void PendingCollectives::become_forked_child() {
  // Not destroyed: the process group may have been forked in the middle of anything.
  static auto* const parents = new std::vector<Entry>;
  std::move(entries_.begin(), entries_.end(), std::back_inserter(*parents));
  entries_.clear();
  any_.store(false, std::memory_order_relaxed);
  mutex_.unlock();
}

void CollectiveCall::use(remat::Runtime& runtime, remat::Storage& storage, DeviceLock& lock) {
  runtime.escape_for_a_while(&storage, lock);
  if (storage.dead) return;
  tripwire::disarm(static_cast<c10::StorageImpl*>(storage.framework_storage));
  uses_.add(storage);
}

void CollectiveCall::returned(Engine& engine, const c10::IValue& work) {
  ++t_started;
  if (uses_.empty() || !work.isObject()) return;
  const auto holder = work.toObject()->getSlot(0).toCapsule();
  c10::intrusive_ptr<c10::ivalue::Future> future;
  try {
    future = static_cast<c10d::Work&>(*holder).getFuture();
  } catch (const std::exception&) {  // it has none
  }
  if (future != nullptr) PendingCollectives::instance().add(engine, future, std::move(uses_));
}

}  // namespace tidepool::torch_glue
