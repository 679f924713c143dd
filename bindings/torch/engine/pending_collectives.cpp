#include "bindings/torch/engine/pending_collectives.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>

#include "bindings/torch/base/devices.h"
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

remat::Storage* CollectiveUses::Use::find(Engine& engine) const {
  // If it has other bytes by now, or none, another remat::Storage stands for it, or none.
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  if (!holds_block(data)) return nullptr;
  remat::Storage* const found = engine.runtime().find(data.get());
  return found == tracked ? found : nullptr;
}

void CollectiveUses::end(Engine& engine) {
  DeviceLock lock(engine.mutex());
  for (const Use& use : uses_) {
    remat::Storage* const tracked = use.find(engine);
    if (tracked == nullptr) continue;
    engine.runtime().leave_alone(tracked);
    tripwire::rearm(*tracked);
  }
}

void CollectiveUses::record_stream(Engine& engine, StreamId user) {
  DeviceLock lock(engine.mutex());
  for (const Use& use : uses_) {
    remat::Storage* const tracked = use.find(engine);
    if (tracked == nullptr) continue;
    engine.allocator().record_stream_locked(use.storage->_mutable_data_ptr_no_checks().get(), user);
    engine.runtime().note_use(*tracked, user);
  }
}

bool PendingCollectives::Entry::has_ended() const {
  return end == End::kDropped ? future.use_count() == 1 : future->completed();
}

PendingCollectives& PendingCollectives::instance() {
  static auto* const all = new PendingCollectives;
  return *all;
}

void PendingCollectives::add(Engine& engine, c10::intrusive_ptr<c10::ivalue::Future> future,
                             End end, CollectiveUses&& uses) {
  MutexLock guard(mutex_);
  if (entries_.size() >= kMost) return;
  entries_.push_back({&engine, std::move(future), end, std::move(uses)});
  any_.store(true, std::memory_order_relaxed);
}

void PendingCollectives::end_completed() {
  std::vector<Entry> entries;
  {
    MutexLock guard(mutex_);
    const auto end = entries_.begin() + std::min(entries_.size(), kLookedAt);
    std::move(entries_.begin(), end, std::back_inserter(entries));
    entries_.erase(entries_.begin(), end);
    any_.store(!entries_.empty(), std::memory_order_relaxed);
  }
  const auto pending = std::partition(entries.begin(), entries.end(), [](Entry& entry) {
    if (!entry.has_ended()) return false;
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
  static auto* const parents = new std::deque<Entry>;
  std::move(entries_.begin(), entries_.end(), std::back_inserter(*parents));
  entries_.clear();
  any_.store(false, std::memory_order_relaxed);
  mutex_.unlock();
}

void CollectiveCall::use(remat::Runtime& runtime, remat::Storage& storage, DeviceLock& lock) {
  if (!std::exchange(is_one_, true)) ++t_running;
  runtime.escape_for_a_while(&storage, lock);
  if (storage.dead) return;
  tripwire::disarm(static_cast<c10::StorageImpl*>(storage.framework_storage));
  uses_.add(storage);
}

namespace {

// nullptr: it has none.
c10::intrusive_ptr<c10::ivalue::Future> future_of(torch::CustomClassHolder& work) {
  try {
    return static_cast<c10d::Work&>(work).getFuture();
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

void CollectiveCall::returned(Engine& engine, const c10::IValue& work) {
  ++t_started;
  const bool by_kernels = host_is_foreign();
  if (uses_.empty() || (by_kernels && (!launched_by_nccl() || any_captures()))) return;
  if (!work.isObject()) return;
  const auto holder = work.toObject()->getSlot(0).toCapsule();
  if (!holder) {  // it was launched on the current stream, like other operators
    if (by_kernels) uses_.end(engine);
    return;
  }
  auto end = PendingCollectives::End::kCompleted;
  c10::intrusive_ptr<c10::ivalue::Future> future = nullptr;
  if (by_kernels) {
    bool waited = false;
    // Newer implementations have the current stream wait where the future is asked for.
    const StreamId stream = engine.backend().wait_beside([&] {
      future = future_of(*holder);
      if (future == nullptr || !future->completed() || future->devices().empty()) return;
      future->wait();
      waited = true;
    });
    if (!waited) return;
    uses_.record_stream(engine, stream);
    end = PendingCollectives::End::kDropped;
  } else {
    future = future_of(*holder);
    if (future == nullptr) return;
  }
  PendingCollectives::instance().add(engine, std::move(future), end, std::move(uses_));
}

}  // namespace tidepool::torch_glue
