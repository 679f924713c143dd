// What a call has to do with devices: whose it is, operands that live on others, graphs that are
// being captured.
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "bindings/torch/intercept/intercepted_call.h"
#include "bindings/torch/storage/storage_access.h"
#include "remat/lineage/mutants.h"

namespace tidepool::torch_glue {

// Scalars of the CPU that kernels of another device read: they are passed by value.
void InterceptedCall::resolve_foreign(Seen& seen, c10::StorageImpl* storage) {
  if (storage->device().is_meta()) {  // no memory, and its size may be a symbol
    seen.home = Home::kEmpty;
    return call().refuse(remat::RootReason::kUnsupported);
  }
  const bool scalar = host_is_foreign() && storage->device().is_cpu() && storage->nbytes() > 0 &&
                      storage->nbytes() <= TensorSlot::kImmediateBytes;
  if ((scalar || TIDEPOOL_MUTANT(5, foreign)) && seen.supported && !seen.written) {
    seen.home = Home::kImmediate;
    ++immediates_;
    return;
  }
  seen.home = Home::kEmpty;
  // Memory of others: its contents may change unseen. (Made before us, if it has no bytes.)
  if (seen.supported && storage->nbytes() == 0 && !seen.written) return;
  const auto place = static_cast<size_t>(&seen - seen_.data());
  if (copies_foreign_) {
    if (const ForeignOperands::Operand* operand = foreign_.find(place)) {
      seen.storage = operand->copy;
      seen.home = Home::kStorage;
      return;
    }
  } else if (call_->may_be_recorded() && may_copy(seen) && foreign_.see(place, *seen.tensor)) {
    return;
  }
  call().refuse(remat::RootReason::kUnstableInput);
  reads_foreign_ = true;
}

// Parameters change with each step, and are needed in any case.
bool InterceptedCall::may_copy(const Seen& seen) const {
  return !host_is_foreign() && seen.supported && !seen.written && info_.replayable &&
         trusted_ && !info_.keeps_operands && !in_optimizer_ &&
         !seen.tensor->requires_grad();
}

// Copies stand for the operands in memory of others, unless they would not pay.
void InterceptedCall::copy_foreign(DeviceLock& lock) {
  ForeignCopies& copies = engine().foreign_copies();
  remat::Runtime& runtime = engine().runtime();
  if (call().may_be_recorded() && runtime.recording() && copies.pays(timing_key()) &&
      foreign_.bytes() <= copies.most_bytes()) {
    {
      Unlocked unlocked(lock);
      copies_foreign_ = foreign_.obtain(copies);
    }
    if (!copies_foreign_) foreign_.unlock();
  }
  if (!copies_foreign_) {
    call().refuse(remat::RootReason::kUnstableInput);
    reads_foreign_ = true;
    return;
  }
  // The lock was released: what was found under it is looked for again.
  immediates_ = 0;
  for (size_t k = 0; k < slots_; ++k) {
    seen_[k].storage = nullptr;
    seen_[k].home = Home::kAbsent;
    if (seen_[k].tensor != nullptr && !is_mutant_constant(seen_[k].tensor)) resolve(seen_[k]);
  }
}

size_t InterceptedCall::result_bytes() const {
  const remat::Record* record = call_->record();
  if (record == nullptr) return 0;
  size_t bytes = 0;
  const auto add = [&](const c10::TensorImpl* tensor) {
    if (tensor == nullptr || !tensor->has_storage()) return;
    bytes += storage_of(tensor)->nbytes();
  };
  for (const Seen& seen : seen_) {
    if (record->writes() && seen.written) add(seen.tensor);
  }
  for (const c10::TensorImpl* tensor : outputs_) {
    if (!record->writes()) add(tensor);
  }
  return bytes;
}

void InterceptedCall::verify_foreign() {
  if (foreign_.verify(engine().foreign_copies(), timing_key(), result_bytes())) return;
  call().refuse(remat::RootReason::kUnstableInput);
  reads_foreign_ = true;
}

void InterceptedCall::choose_engine() {
  if (!host_is_foreign()) {
    engine_ = engine_of(c10::Device(c10::kCPU));
    return;
  }
  for (const Seen& seen : seen_) {
    if (seen.tensor == nullptr) continue;
    const c10::StorageImpl* storage = storage_of(seen.tensor);
    const std::optional<c10::Device> device =
        storage != nullptr ? storage->device() : seen.tensor->device();
    if ((engine_ = engine_of(*device)) != nullptr) return;
  }
}

// Nothing is restored or recorded while a graph is captured, and what it uses never moves again.
void InterceptedCall::prepare_in_capture(DeviceLock& lock) {
  for (const Seen& seen : seen_) {
    TORCH_CHECK(seen.storage == nullptr || !seen.storage->evicted,
                "Tidepool: a tensor that was evicted would have to be restored while a graph is "
                "captured");
  }
  call().refuse(remat::RootReason::kUnsupported);
  call().prepare(lock);
  for (const Seen& seen : seen_) {
    if (seen.storage == nullptr || TIDEPOOL_MUTANT(7, captured_operand)) continue;
    engine().runtime().escape(seen.storage, lock);
  }
}

void InterceptedCall::hold_elsewhere() {
  for (Seen& seen : seen_) {
    c10::StorageImpl* storage = seen.tensor != nullptr ? storage_of(seen.tensor) : nullptr;
    Engine* other = storage != nullptr ? engine_of(storage) : nullptr;
    if (other == nullptr || other == engine_) continue;
    const auto found = std::find_if(elsewhere_.begin(), elsewhere_.end(),
                                    [&](const auto& each) { return &each->engine == other; });
    if (found == elsewhere_.end()) elsewhere_.push_back(std::make_unique<Elsewhere>(*other));
  }
  for (const std::unique_ptr<Elsewhere>& each : elsewhere_) {
    DeviceLock lock(each->engine.mutex());
    each->call.set_type(info_);
    each->call.refuse(remat::RootReason::kUnsupported);
    Engine* const own = std::exchange(engine_, &each->engine);
    for (Seen& seen : seen_) {
      c10::StorageImpl* storage = seen.tensor != nullptr ? storage_of(seen.tensor) : nullptr;
      if (storage == nullptr || engine_of(storage) != &each->engine) continue;
      resolve(seen);
      if (seen.storage != nullptr) each->call.add(seen.storage, access_of(seen));
      seen.elsewhere = std::exchange(seen.storage, nullptr);
    }
    each->call.prepare(lock);
    for (const Seen& seen : seen_) {
      if (seen.elsewhere == nullptr) continue;
      if (engine_of(storage_of(seen.tensor)) != &each->engine) continue;
      if (seen.supported && trusted_ && !info_.keeps_operands) continue;
      each->engine.runtime().escape(seen.elsewhere, lock);
    }
    engine_ = own;
  }
}

// The graph's kernels read seed and offset by address, and an operator writes them at each replay.
void InterceptedCall::keep_captured_state(const c10::GeneratorImpl& generator, DeviceLock& lock) {
  if (TIDEPOOL_MUTANT(7, captured_generator)) return;
  for (const c10::Storage& storage : engine().backend().captured_state(generator)) {
    see_storage(storage);
    resolve(seen_.back());
    if (seen_.back().storage != nullptr) engine().runtime().escape(seen_.back().storage, lock);
  }
}

}  // namespace tidepool::torch_glue
