#include "bindings/torch/intercept/intercepted_call.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <span>
#include <utility>

#include "bindings/torch/base/cycle_clock.h"
#include "bindings/torch/base/interpreter.h"
#include "bindings/torch/engine/work_recorder.h"
#include "bindings/torch/intercept/interception.h"
#include "bindings/torch/intercept/operands/argument_tracking.h"
#include "bindings/torch/intercept/operands/byte_ranges.h"
#include "bindings/torch/intercept/operands/region.h"
#include "bindings/torch/storage/storage_access.h"
#include "bindings/torch/storage/tripwire.h"

namespace tidepool::torch_glue {

std::atomic<PlaceSource> g_place_source{nullptr};

namespace {

bool fills_fresh_memory() {
  const at::Context& context = at::globalContext();
  return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
}

}  // namespace

void InterceptedCall::resolve(Seen& seen) {
  c10::StorageImpl* storage = storage_of(seen.tensor);
  if (storage == nullptr || !seen.supported) call().refuse(remat::RootReason::kLayout);
  if (storage == nullptr) return;
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  if (is_ours(data)) [[likely]] {
    if (host_is_foreign()) {
      if (engine_of(data.device()) != engine_) [[unlikely]] {
        spread_ = true;
        call().refuse(remat::RootReason::kUnsupported);
        return;
      }
      const bool in_arena = data.get() == nullptr || engine().allocator().contains(data.get());
      if (!in_arena) return resolve_foreign(seen, storage);  // PyTorch's own pools
    }
    if (!is_evicted(data) && data.get() == nullptr) {
      seen.home = Home::kEmpty;
      fills_ |= seen.written;
      return;
    }
    if (!seen.written && seen.supported && seen.tensor->is_wrapped_number() && !is_evicted(data) &&
        storage->nbytes() <= TensorSlot::kImmediateBytes) {
      seen.home = Home::kImmediate;
      ++immediates_;
      return;
    }
    if (seen.written && fills_fresh_memory() && info_.qualified_name == "aten::fill_.Scalar" &&
        find_tracked(engine(), storage, remat::RootReason::kNone) == nullptr) [[unlikely]] {
      // With that switch, `empty` fills its memory by this operator, and native code may write to
      // it right afterwards: until another operator uses it, it must stay where it is.
      call().refuse(remat::RootReason::kUntracked);
      seen.home = Home::kEmpty;
      return;
    }
    seen.storage = track_argument(engine(), seen.tensor, seen.written);
    seen.home = Home::kStorage;
    return;
  }
  resolve_foreign(seen, storage);
}

// Adds an operand, and says which bytes of it are used where that matters.
void InterceptedCall::add_operand(Seen& seen) {
  seen.access = seen.access_by(info_);
  call().add(seen.storage, seen.access);
  // Threads write the same places, in any order.
  if (seen.written && seen.may_overlap_itself() &&
      (host_is_foreign() || NumericState::threads_now() != 1)) [[unlikely]] {
    call().refuse(remat::RootReason::kVaries);
  }
  const bool only_written = info_.overwrites_in_place && seen.access == remat::Access::kUpdate;
  if (!remat::OperatorCall::asks_for_bytes(*seen.storage, only_written)) [[likely]]
    return;
  if (info_.reads_beyond && !only_written) return;
  if (std::optional<remat::ByteRanges> bytes = bytes_shown_by(*seen.tensor)) {
    call().uses_bytes(*std::move(bytes), only_written);
  }
}

void InterceptedCall::add_operands(DeviceLock& lock) {
  for (size_t k = 0; k < seen_.slots(); ++k) {
    if (seen_[k].tensor == nullptr) continue;
    resolve(seen_[k]);
    if (!seen_[k].supported) [[unlikely]]
      seen_.add_components(seen_[k].tensor, seen_[k].written);
  }
  for (size_t k = seen_.slots(); k < seen_.size(); ++k) resolve(seen_[k]);
  if (!foreign_.empty()) copy_foreign(lock);
  if (info_.overwrites) seen_.find_shared();
  // Boxed kernels with several outputs return references to arguments that only a replay holds.
  if (fills_ && (info_.return_count != 1 || !seen_.writes_results_only())) {
    call().refuse(remat::RootReason::kUnsupported);
  }
  for (Seen& seen : seen_) {
    if (seen.storage != nullptr) add_operand(seen);
  }
  if (copies_foreign_) [[unlikely]]
    foreign_.unlock();
  // An operator may read by address what other threads compute for it.
  inside_ = UntrustedCall::any() || at::in_parallel_region();
  if (!trusted_ && in_region()) call().refuse(remat::RootReason::kCompiled);
  if (!info_.replayable || !trusted_ || inside_) call().refuse(remat::RootReason::kUnsupported);
  // The threads of a pool round as the thread did that started them.
  if (!NumericState::rounds_as_usual()) call().refuse(remat::RootReason::kUnsupported);
  // What writes at places is known once it has run.
  if (!depends_on_places(info_.varies) && may_vary(info_.varies, switched_)) {
    call().refuse(remat::RootReason::kVaries);
  }
  // What an optimizer updates depends on the whole step, which restoring it would repeat; unless
  // all is of its own making, such as the root of a moment.
  if (in_optimizer_ && info_.writes && !info_.overwrites &&
      !seen_.all_are(remat::Role::kOptimizerState)) {
    call().refuse(remat::RootReason::kPartialWrite);
  }
  if (reads_foreign_) [[unlikely]]
    mark_inputs();
}

// Marks storages that are filled from foreign memory as inputs of the job.
void InterceptedCall::mark_inputs() {
  for (const Seen& seen : seen_) {
    const bool filled = seen.storage != nullptr && seen.written;
    if (filled && seen.storage->role == remat::Role::kOther) {
      seen.storage->role = remat::Role::kInput;
    }
  }
}

// Protects operands that something may go on using unseen: those of collectives, and components of
// tensors of other layouts, stay for good; those of operators that are not trusted lose their
// lineage.
void InterceptedCall::distrust_operands(DeviceLock& lock) {
  for (size_t k = 0; k < seen_.size(); ++k) {
    const Seen& seen = seen_[k];
    if (seen.storage == nullptr) continue;
    if (info_.returns_work && seen.supported) {
      collective_.use(engine().runtime(), *seen.storage, lock);
      if (in_region()) seen.storage->fixed = true;
    } else if (only_stays(seen)) {
      seen.storage->fixed = true;
    } else if (!seen.supported || info_.keeps_operands) {
      engine().runtime().escape(seen.storage, lock);
      // Copy-on-write takes over the storage's bytes, which an armed storage would refuse.
      if (!seen.storage->dead) tripwire::disarm(storage_of(seen.tensor));
    } else if (!trusted_ && !info_.is_collective) {
      engine().runtime().cut(seen.storage, remat::RootReason::kUnsupported, lock);
      seen.storage->fixed = true;  // it may have kept the address
    }
  }
}

CallBody* InterceptedCall::begin_body() {
  // A returned list's length is not known yet: operators on lists return as many as they get.
  size_t outputs =
      info_.returns_list ? std::max<size_t>(info_.return_count, seen_.slots()) : info_.return_count;
  if (expected_outputs_ > 0) outputs = expected_outputs_;
  remat::Record* record = call().begin_record(
      info_, CallBody::bytes_for(info_, seen_.slots(), seen_.dimensions(), immediates_), outputs);
  CallBody& body = CallBody::construct(record->body, info_, seen_.slots(), seen_.dimensions());
  for (size_t k = 0; k < seen_.slots(); ++k) {
    const Seen& seen = seen_[k];
    int64_t offset = seen.tensor != nullptr ? seen.tensor->storage_offset() : 0;
    if (const ForeignOperands::Operand* foreign = foreign_.find(k)) offset = foreign->offset;
    body.add_slot(seen.slot_kind(call().begins_pieces()), seen.tensor, offset);
  }
  return &body;
}

CallBody* InterceptedCall::begin_locked() {
  DeviceLock lock(engine().mutex());
  add_operands(lock);
  const bool capturing = engine().capturing();
  if (capturing) [[unlikely]]
    prepare_in_capture(lock);
  const bool recordable = !capturing && call().prepare(lock);
  if (recordable) return begin_body();
  if (!trusted_ || seen_.slots() != seen_.size() || info_.keeps_operands) [[unlikely]] {
    distrust_operands(lock);
  }
  return nullptr;
}

CallBody* InterceptedCall::begin(const at::Generator* generator) {
  if (PendingCollectives::any()) [[unlikely]]
    PendingCollectives::instance().end_completed();
  choose_engine();
  if (engine_ == nullptr) return nullptr;
  call_.emplace(engine().runtime());
  call().set_type(info_);
  note_operator(info_.name);
  if (engine().is_traced()) [[unlikely]] {
    if (const PlaceSource source = g_place_source.load(std::memory_order_relaxed)) {
      const Undisturbed scope;  // what the job's code raises would not get through this call
      call().set_place(source());
    }
  }
  in_optimizer_ = t_in_optimizer;
  const bool is_known = info_.is_trusted();
  trusted_ = is_known && !in_region();
  CallBody* body = nullptr;
  if (!draw_.can_be_recorded(generator, engine().device(), OwnKernels::may_draw())) {
    call().refuse(remat::RootReason::kUnsupported);
  }
  try {
    body = begin_locked();
    if (spread_) hold_elsewhere();
  } catch (const OutOfMemory&) {
    rethrow_as_torch_error(engine());
  }
  const bool only_calls_others = info_.is_collective && !info_.returns_work;
  if (!is_known && !only_calls_others) untrusted_.emplace();
  collective_.begin();
  draw_.begin(engine(), body, generator);
  if (body != nullptr) body->numeric = NumericState::capture(host_is_foreign());
  body_ = body;
  own_kernels_before_ = OwnKernels::so_far();
  const bool timed = (body != nullptr || engine().is_traced()) && !any_captures();
  timer_ = timed ? engine().backend().timer() : nullptr;
  if (timer_ != nullptr) timed_ = timer_->begin(info_, call().record(), seen_.timing_key(info_));
  failures_before_ = out_of_memory_count();
  kernel_start_ = CycleClock::now();
  return body;
}

remat::Storage* InterceptedCall::track_output(size_t place) {
  remat::Storage* const tracked = track_result(engine(), outputs_[place], call().reason());
  if (tracked == nullptr) return nullptr;
  if (place == info_.scratch_result) [[unlikely]]
    engine().runtime().call_context().contents.residency.check.shows(*tracked->current, 0);
  if (in_optimizer_) {
    tracked->role = remat::Role::kOptimizerState;
  } else if (reads_foreign_) {
    tracked->role = remat::Role::kInput;
  }
  return tracked;
}

// Resolves an argument in foreign memory. Scalars on the CPU are passed by value to other devices.
void InterceptedCall::resolve_foreign(Seen& seen, c10::StorageImpl* storage) {
  if (storage->device().is_meta()) {  // no memory, and its size may be a symbol
    seen.home = Home::kEmpty;
    return call().refuse(remat::RootReason::kUnsupported);
  }
  const bool scalar = host_is_foreign() && storage->device().is_cpu() && storage->nbytes() > 0 &&
                      storage->nbytes() <= TensorSlot::kImmediateBytes && !is_pinned(*seen.tensor);
  if (scalar && seen.supported && !seen.written) {
    seen.home = Home::kImmediate;
    ++immediates_;
    return;
  }
  seen.home = Home::kEmpty;
  // The contents of foreign memory may change unseen. (A storage without bytes was made before us.)
  if (seen.supported && storage->nbytes() == 0 && !seen.written) return;
  const size_t place = seen_.place_of(seen);
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

// Whether a copy may stand for a foreign operand. A copy has only what the operand shows. The
// optimizer's operands change, and are needed in any case.
bool InterceptedCall::may_copy(const Seen& seen) const {
  const bool suffices = !info_.reads_beyond || seen.covers_storage();
  return !host_is_foreign() && seen.supported && !seen.written && info_.replayable && trusted_ &&
         suffices && !info_.keeps_operands && !in_optimizer_;
}

// Has copies stand for the foreign operands, if they pay.
void InterceptedCall::copy_foreign(DeviceLock& lock) {
  ForeignCopies& copies = engine().foreign_copies();
  remat::Runtime& runtime = engine().runtime();
  if (call().may_be_recorded() && runtime.recording() && copies.pays(seen_.timing_key(info_)) &&
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
  // The lock was released, so that what was found under it has to be looked for again.
  immediates_ = 0;
  for (Seen& seen : seen_) {
    seen.storage = nullptr;
    seen.home = Home::kAbsent;
    if (seen.tensor != nullptr) resolve(seen);
  }
}

size_t InterceptedCall::result_bytes() const {
  const remat::Record* record = call_->record();
  if (record == nullptr) return 0;
  return record->writes() ? seen_.written_bytes() : output_bytes();
}

void InterceptedCall::verify_foreign() {
  if (foreign_.verify(engine().foreign_copies(), seen_.timing_key(info_), result_bytes())) return;
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
  if (!info_.is_trusted()) on_host_.emplace();
}

// Prepares a call while a graph is captured: nothing is restored or recorded, and what the graph
// uses never moves again.
void InterceptedCall::prepare_in_capture(DeviceLock& lock) {
  for (const Seen& seen : seen_) {
    TORCH_CHECK(seen.storage == nullptr || !seen.storage->evicted,
                "Tidepool: a tensor that was evicted would have to be restored while a graph is "
                "captured");
  }
  call().refuse(remat::RootReason::kUnsupported);
  call().prepare(lock);
  keep_operands(lock);
}

void InterceptedCall::keep_operands(DeviceLock& lock) {
  for (const Seen& seen : seen_) {
    if (seen.storage != nullptr) engine().runtime().escape(seen.storage, lock);
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
      if (seen.storage != nullptr) each->call.add(seen.storage, seen.access_by(info_));
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

// Keeps the storages of a generator's state where they are: the graph's kernels read seed and
// offset by address, and an operator writes them at each replay of the graph.
void InterceptedCall::keep_captured_state(const c10::GeneratorImpl& generator, DeviceLock& lock) {
  for (const c10::Storage& storage : engine().backend().captured_state(generator)) {
    seen_.add_storage(storage);
    resolve(seen_.back());
    if (seen_.back().storage != nullptr) engine().runtime().escape(seen_.back().storage, lock);
  }
}

void InterceptedCall::finish() {
  if (has_engines_beside(engine_) && info_.is_trusted()) track_results_elsewhere(outputs_, engine_);
  if (engine_ == nullptr) return;
  const uint64_t cost_ns = timer_ != nullptr ? timer_->end(timed_, seen_.bytes() + output_bytes())
                                             : CycleClock::ns_since(kernel_start_);
  const bool met_twice = depends_on_places(info_.varies) && body_ != nullptr &&
                         may_vary(info_.varies) && !seen_.name_places_once(info_);
  draw_.end();
  if (met_twice) call().refuse(remat::RootReason::kVaries);
  untrusted_.reset();
  note_operator(nullptr);
  // The number of threads is known only now: a thread's first parallel kernel decides it.
  if (body_ != nullptr) body_->numeric.capture_threads();
  if (!OwnKernels::allow_replay(info_, own_kernels_before_)) {
    call().refuse(remat::RootReason::kUnsupported);
  }
  if (ran_out_of_memory_since(failures_before_)) [[unlikely]] {
    say_inexact(info_.name);
    note_refused_memory(info_.varies);
    call().refuse(remat::RootReason::kUnsupported);
  }
  // An operator that has given its output another size has not written all of the storage.
  if (info_.overwrites && !seen_.cover_what_they_overwrite()) {
    call().refuse(remat::RootReason::kUnsupported);
  }
  if (copies_foreign_) verify_foreign();
  DeviceLock lock(engine().mutex());
  if (copies_foreign_ && reads_foreign_) [[unlikely]]
    mark_inputs();
  absl::InlinedVector<remat::Storage*, 4> outputs;
  const bool writes_record = call().record() != nullptr && call().record()->writes();
  if (!writes_record) {
    const size_t recorded =
        call().record() != nullptr ? call().record()->output_count : outputs_.size();
    for (size_t k = 0; k < outputs_.size() && k < recorded; ++k) outputs.push_back(track_output(k));
  }
  if (!trusted_ || inside_) [[unlikely]] {
    for (remat::Storage* output : outputs) {
      if (output != nullptr) output->fixed = true;  // it may have kept the address
    }
  }
  if (body_ != nullptr && body_->heap_bytes() > 0) call().add_heap_bytes(body_->heap_bytes());
  call().finish(lock, {outputs.data(), outputs.size()}, cost_ns);
  if (info_.is_collective && !info_.returns_work && !collective_.has_started_any()) [[unlikely]] {
    keep_operands(lock);
    keep_outputs({outputs.data(), outputs.size()}, lock);
  }
  if (info_.keeps_operands) [[unlikely]]
    keep_outputs({outputs.data(), outputs.size()}, lock);
  if (call().reason() == remat::RootReason::kRecordingOff && !engine().runtime().has_lineage())
      [[unlikely]] {
    g_passive.store(!engine().runtime().recording(), std::memory_order_relaxed);
  }
  for (c10::TensorImpl* tensor : outputs_) {
    if (tensor != nullptr && !is_supported(tensor)) keep_components(tensor, lock);
  }
  if (const c10::GeneratorImpl* captured = draw_.captured_generator()) [[unlikely]]
    keep_captured_state(*captured, lock);
}

// Keeps outputs where they are that may be written after the operator has returned.
void InterceptedCall::keep_outputs(std::span<remat::Storage* const> outputs, DeviceLock& lock) {
  for (remat::Storage* output : outputs) {
    if (output == nullptr || output->dead) continue;
    engine().runtime().escape(output, lock);
    if (!output->dead) tripwire::disarm(static_cast<c10::StorageImpl*>(output->framework_storage));
  }
}

// Keeps the dense tensors inside a sparse, nested or mkldnn result: its kernels read them unseen.
void InterceptedCall::keep_components(c10::TensorImpl* tensor, DeviceLock& lock) {
  const size_t before = seen_.size();
  if (storage_of(tensor) != nullptr) seen_.add_other(tensor);
  seen_.add_components(tensor, false);
  for (size_t k = before; k < seen_.size(); ++k) {
    resolve(seen_[k]);
    if (seen_[k].storage == nullptr) continue;
    if (only_stays(seen_[k])) {
      seen_[k].storage->fixed = true;
    } else {
      engine().runtime().escape(seen_[k].storage, lock);
    }
  }
}

// Whether the storage only has to stay where it is: PyTorch's kernels that write the components of
// a sparse tensor are all seen.
bool InterceptedCall::only_stays(const Seen& seen) const {
  return seen.of_sparse && !host_is_foreign() && !info_.keeps_operands && info_.is_pytorchs();
}

}  // namespace tidepool::torch_glue
