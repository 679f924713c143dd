#include "bindings/torch/intercept/intercepted_call.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <span>
#include <utility>

#include "bindings/torch/base/cycle_clock.h"
#include "bindings/torch/intercept/interception.h"
#include "bindings/torch/intercept/tensor_components.h"
#include "bindings/torch/storage/gradients.h"
#include "bindings/torch/storage/storage_access.h"
#include "bindings/torch/storage/tripwire.h"
#include "remat/lineage/mutants.h"

namespace tidepool::torch_glue {

constinit thread_local bool t_in_optimizer = false;
constinit thread_local int t_region_depth = 0;
constinit thread_local uint64_t t_own_kernels = 0;
std::atomic<bool> g_has_own_kernels{false};

namespace {

// A leaf that requires a gradient, or a view of one (linear layers use their weight transposed).
bool is_parameter(c10::TensorImpl* impl) {
  if (!impl->requires_grad()) return false;
  const BorrowedTensor borrowed(impl);
  const at::Tensor& tensor = *borrowed;
  return tensor.is_leaf() || (tensor.is_view() && tensor._base().is_leaf());
}

// What the storage of a tensor that is tracked for the first time is to the job. Contents that are
// read before any operator has written them came from outside.
remat::Role role_of(c10::TensorImpl* tensor, bool written) {
  if (is_parameter(tensor)) return remat::Role::kParameter;
  if (t_in_optimizer) return remat::Role::kOptimizerState;
  return written ? remat::Role::kOther : remat::Role::kInput;
}

bool fills_fresh_memory() {
  const at::Context& context = at::globalContext();
  return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
}

bool is_supported(const c10::TensorImpl* tensor) {
  return (tensor->key_set().raw_repr() & ~supported_keys()) == 0 &&
         !tensor->has_symbolic_sizes_strides();
}

}  // namespace

void InterceptedCall::see(c10::TensorImpl* tensor, const TensorArgument& argument,
                          bool switched) {
  ++slots_;
  switched_ |= switched;
  if (tensor == nullptr || tensor == c10::UndefinedTensorImpl::singleton()) {
    seen_.push_back({nullptr});
    return;
  }
  Seen seen{tensor};
  seen.written = argument.writes;
  seen.side_written = argument.side_writes && (switched || info_.switch_argument < 0);
  seen.supported = is_supported(tensor);
  if (seen.supported) dimensions_ += static_cast<size_t>(tensor->dim());
  seen_.push_back(seen);
}

void InterceptedCall::see_storage(const c10::Storage& storage) {
  components_.push_back(c10::make_intrusive<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
      caffe2::TypeMeta::Make<uint8_t>()));
  seen_.push_back({components_.back().get()});
}

void InterceptedCall::see_components(c10::TensorImpl* tensor, bool written) {
  for (const at::Tensor& component : components_of(tensor)) {
    components_.push_back(component.getIntrusivePtr());
    Seen seen{component.unsafeGetTensorImpl()};
    seen.written = written;
    seen.supported = false;
    seen_.push_back(seen);
  }
}

remat::Storage* InterceptedCall::storage_behind(const Seen& seen, c10::StorageImpl* storage) {
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  remat::Runtime& runtime = engine().runtime();
  remat::Storage* tracked = nullptr;
  if (data.get_deleter() == &delete_evicted) {
    tracked = static_cast<remat::Storage*>(data.get_context());
  } else {
    tracked = runtime.find(data.get());
  }
  if (tracked == nullptr) {
    tracked = start_tracking(engine().runtime(), storage, remat::RootReason::kUntracked);
    tracked->role = role_of(seen.tensor, seen.written);
    // `empty` fills its memory by an operator then, and native code may write it right afterwards.
    if (seen.written && fills_fresh_memory()) call().refuse(remat::RootReason::kUntracked);
  } else if (tracked->backend != storage) [[unlikely]] {
    // The bytes moved to another StorageImpl (a swap): their identity goes with them.
    hold_weakly(storage);
    drop_weak_hold(static_cast<c10::StorageImpl*>(tracked->backend));
    tracked->backend = storage;
  }
  // A parameter's bytes may be older than the parameter.
  if (tracked->role != remat::Role::kParameter && tracked->current->producer == nullptr &&
      is_parameter(seen.tensor)) {
    tracked->role = remat::Role::kParameter;
  }
  if (tracked->role == remat::Role::kParameter && seen.tensor->requires_grad() &&
      runtime.threads() <= threads_of_one_job()) {
    note_parameter(*tracked, seen.tensor);
  }
  return tracked;
}

void InterceptedCall::resolve(Seen& seen) {
  c10::StorageImpl* storage = storage_of(seen.tensor);
  if (storage == nullptr || !seen.supported) call().refuse(remat::RootReason::kLayout);
  if (storage == nullptr) return;
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  const c10::DeleterFnPtr deleter = data.get_deleter();
  if (deleter == &delete_block || deleter == &delete_evicted) [[likely]] {
    if (host_is_foreign()) {
      if (engine_of(data.device()) != engine_) [[unlikely]] {
        spread_ = true;
        call().refuse(remat::RootReason::kUnsupported);
        return;
      }
      const bool in_arena = data.get() == nullptr || engine().allocator().contains(data.get());
      if (!in_arena) return resolve_foreign(seen, storage);  // PyTorch's own pools
    }
    if (deleter == &delete_block && data.get() == nullptr) {
      seen.home = Home::kEmpty;
      // An output that the operator will give memory to: its record would resize a storage.
      if (seen.written) call().refuse(remat::RootReason::kUnsupported);
      return;
    }
    if (!seen.written && seen.supported && seen.tensor->is_wrapped_number() &&
        deleter == &delete_block && storage->nbytes() <= TensorSlot::kImmediateBytes) {
      seen.home = Home::kImmediate;
      ++immediates_;
      return;
    }
    seen.storage = storage_behind(seen, storage);
    seen.home = Home::kStorage;
    return;
  }
  resolve_foreign(seen, storage);
}

bool InterceptedCall::starts_inside(const Seen& seen) {
  return seen.storage != nullptr && seen.tensor->storage_offset() > 0;
}

bool InterceptedCall::covers_storage(const Seen& seen) const {
  const c10::TensorImpl* tensor = seen.tensor;
  if (TIDEPOOL_MUTANT(2, partial_overwrite)) return true;
  if (tensor->storage_offset() != 0 || !tensor->is_non_overlapping_and_dense()) return false;
  const size_t bytes = static_cast<size_t>(tensor->numel()) * tensor->itemsize();
  return bytes == storage_of(tensor)->nbytes();
}

remat::Access InterceptedCall::access_of(const Seen& seen) const {
  if (seen.side_written) return remat::Access::kSideWrite;
  if (!seen.written) return remat::Access::kRead;
  const bool is_root = seen.storage != nullptr && seen.storage->current->producer == nullptr;
  if (TIDEPOOL_MUTANT(2, root_write) && is_root) return remat::Access::kRead;
  if (TIDEPOOL_MUTANT(2, root_as_blank) && is_root) return remat::Access::kOverwrite;
  const bool overwrites = info_.overwrites || TIDEPOOL_MUTANT(2, update_as_overwrite);
  if (!overwrites || seen.shared || !covers_storage(seen)) return remat::Access::kUpdate;
  return remat::Access::kOverwrite;
}

// Marks arguments whose storage another one has, too.
void InterceptedCall::find_shared() {
  absl::InlinedVector<std::pair<remat::Storage*, size_t>, 8> places;
  for (size_t k = 0; k < seen_.size(); ++k) {
    if (seen_[k].storage != nullptr) places.emplace_back(seen_[k].storage, k);
  }
  std::sort(places.begin(), places.end());  // lists have any number of arguments
  for (size_t k = 1; k < places.size(); ++k) {
    if (places[k].first != places[k - 1].first) continue;
    seen_[places[k].second].shared = seen_[places[k - 1].second].shared = true;
  }
}

void InterceptedCall::add_operands(DeviceLock& lock) {
  for (size_t k = 0; k < slots_; ++k) {
    if (seen_[k].tensor == nullptr || is_mutant_constant(seen_[k].tensor)) continue;
    resolve(seen_[k]);
    if (!seen_[k].supported) [[unlikely]] see_components(seen_[k].tensor, seen_[k].written);
  }
  for (size_t k = slots_; k < seen_.size(); ++k) resolve(seen_[k]);
  if (!foreign_.empty()) [[unlikely]] copy_foreign(lock);
  if (info_.overwrites || TIDEPOOL_MUTANT(2, update_as_overwrite)) find_shared();
  for (Seen& seen : seen_) {
    if (seen.storage == nullptr) continue;
    seen.access = access_of(seen);
    call().add(seen.storage, seen.access);
  }
  if (copies_foreign_) [[unlikely]] foreign_.unlock();
  // What threads beside an operator compute for it, it may read by address.
  inside_ = UntrustedCall::any() || at::in_parallel_region();
  if (!info_.replayable || !trusted_ || inside_) call().refuse(remat::RootReason::kUnsupported);
  // A pool's threads round as the thread did that started it.
  if (!NumericState::rounds_as_usual()) call().refuse(remat::RootReason::kUnsupported);
  if (info_.varies != Variation::kNone && (info_.varies != Variation::kTransposed || switched_) &&
      may_vary(info_.varies)) {
    call().refuse(remat::RootReason::kVaries);
  }
  // What an optimizer updates depends on the whole step: restoring it would run that again.
  if (in_optimizer_ && info_.writes && !info_.overwrites) {
    call().refuse(remat::RootReason::kPartialWrite);
  }
  if (reads_foreign_) [[unlikely]]
    mark_inputs();
}

// What is filled from memory of others is an input of the job.
void InterceptedCall::mark_inputs() {
  for (const Seen& seen : seen_) {
    const bool filled = seen.storage != nullptr && seen.written;
    if (filled && seen.storage->role == remat::Role::kOther) {
      seen.storage->role = remat::Role::kInput;
    }
  }
}

// The operator was refused memory and went on: without a budget it would have had it.
void InterceptedCall::say_inexact() const {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  std::fprintf(stderr,
               "tidepool: %s was refused memory and went on without: its results may differ from "
               "those of a run with a larger budget\n",
               info_.name);
}

// Storages that something beyond us may go on using: they stay for good (sparse components,
// collectives), or lose their lineage (operators whose effects nobody vouches for).
void InterceptedCall::distrust_operands(DeviceLock& lock) {
  for (size_t k = 0; k < seen_.size(); ++k) {
    const Seen& seen = seen_[k];
    if (seen.storage == nullptr) continue;
    if (TIDEPOOL_MUTANT(5, collective) && info_.keeps_operands) continue;
    if (!seen.supported || info_.keeps_operands) {
      engine().runtime().escape(seen.storage, lock);
      // A copy on write takes the bytes over, which an armed storage refuses.
      if (!seen.storage->dead) tripwire::disarm(storage_of(seen.tensor));
    } else if (!trusted_ && !TIDEPOOL_MUTANT(5, unknown_effect)) {
      engine().runtime().cut(seen.storage, remat::RootReason::kUnsupported, lock);
      seen.storage->fixed = true;  // it may have kept the address
    }
  }
}

CallBody* InterceptedCall::begin_body() {
  // A list's length is not known yet: operators on lists return as many as they were given.
  const size_t outputs =
      info_.returns_list ? std::max<size_t>(info_.return_count, slots_) : info_.return_count;
  remat::Record* record = call().begin_record(
      info_, CallBody::bytes_for(info_, slots_, dimensions_, immediates_), outputs);
  CallBody& body = CallBody::construct(record->body, info_, slots_, dimensions_);
  for (size_t k = 0; k < slots_; ++k) {
    const Seen& seen = seen_[k];
    TensorSlot::Kind kind = TensorSlot::Kind::kAbsent;
    if (seen.home == Home::kEmpty) kind = TensorSlot::Kind::kEmpty;
    if (seen.home == Home::kImmediate) kind = TensorSlot::Kind::kImmediate;
    if (seen.home == Home::kStorage && !seen.side_written) {
      kind = seen.access == remat::Access::kOverwrite ? TensorSlot::Kind::kBlank
                                                      : TensorSlot::Kind::kEdge;
    }
    int64_t offset = seen.tensor != nullptr ? seen.tensor->storage_offset() : 0;
    if (const ForeignOperands::Operand* foreign = foreign_.find(k)) offset = foreign->offset;
    body.add_slot(kind, seen.tensor, offset);
  }
  return &body;
}

void InterceptedCall::begin_draw(CallBody& body, const at::Generator* generator) {
  c10::GeneratorImpl& source = generator == nullptr ? default_generator(engine().device())
                                                    : *generator->unsafeGetGeneratorImpl();
  if (info_.generator_argument >= 0) {
    draw_.emplace(engine().backend(), source, *body.random);
    return;
  }
  body.random->read_counter(source);
  drawn_ = body.random;
}

void InterceptedCall::end_draw() {
  draw_.reset();
  if (drawn_ == nullptr) return;
  RandomState now;
  now.read_counter(default_generator(engine().device()));
  // Another thread has seeded the generator meanwhile: it is not known what the kernel drew from.
  if (now.seed != drawn_->seed || now.offset < drawn_->offset) {
    call().refuse(remat::RootReason::kVaries);
  }
}

CallBody* InterceptedCall::begin_locked() {
  DeviceLock lock(engine().mutex());
  add_operands(lock);
  const bool capturing = engine().capturing();
  if (capturing) [[unlikely]] prepare_in_capture(lock);
  const bool recordable = !capturing && call().prepare(lock);
  for (const Seen& seen : seen_) {
    if (TIDEPOOL_MUTANT(1, view_lock) && starts_inside(seen)) --seen.storage->locks;
  }
  if (recordable) return begin_body();
  if (!trusted_ || slots_ != seen_.size() || info_.keeps_operands) [[unlikely]] {
    distrust_operands(lock);
  }
  return nullptr;
}

CallBody* InterceptedCall::begin(const at::Generator* generator) {
  choose_engine();
  if (engine_ == nullptr) return nullptr;
  call_.emplace(engine().runtime());
  call().set_type(info_);
  in_optimizer_ = t_in_optimizer;
  const bool is_known = info_.is_trusted();
  trusted_ = is_known && t_region_depth == 0;
  CallBody* body = nullptr;
  const bool is_untold = info_.generator_argument < 0 && !info_.draws_by_default_only;
  if (draws_ && (is_untold || g_has_own_kernels.load(std::memory_order_relaxed))) {
    call().refuse(remat::RootReason::kUnsupported);
  }
  if (info_.draws && generator != nullptr && generator->device() != engine().device()) {
    call().refuse(remat::RootReason::kUnsupported);
  }
  try {
    body = begin_locked();
    if (spread_) [[unlikely]] hold_elsewhere();
  } catch (const OutOfMemory&) {
    rethrow_as_torch_error(engine());
  }
  if (!is_known) untrusted_.emplace();
  if (body != nullptr && info_.draws) [[unlikely]] {
    if (draws_) {
      begin_draw(*body, generator);
    } else {
      body->forget_random();
    }
  }
  if (info_.draws && engine().capturing()) [[unlikely]] {
    captured_generator_ = generator == nullptr ? &default_generator(engine().device())
                                               : generator->unsafeGetGeneratorImpl();
  }
  if (body != nullptr) body->numeric = NumericState::capture(host_is_foreign());
  body_ = body;
  own_kernels_before_ = t_own_kernels;
  const bool timed = body != nullptr || engine().is_traced();
  timer_ = timed ? engine().backend().timer() : nullptr;
  if (timer_ != nullptr) timed_ = timer_->begin(info_, call().record(), timing_key());
  failures_before_ = out_of_memory_count();
  kernel_start_ = CycleClock::now();
  return body;
}

uint64_t InterceptedCall::timing_key() const {
  uint64_t hash = reinterpret_cast<uintptr_t>(&info_);
  const auto add = [&](uint64_t word) { hash = (hash ^ word) * 0x9E3779B97F4A7C15u; };
  for (const Seen& seen : seen_) {
    if (seen.tensor == nullptr || !seen.supported) continue;
    add(static_cast<uint64_t>(c10::typeMetaToScalarType(seen.tensor->dtype())));
    for (int64_t size : seen.tensor->sizes()) add(static_cast<uint64_t>(size));
    for (int64_t stride : seen.tensor->strides()) add(static_cast<uint64_t>(stride));
  }
  return hash ^ hash >> 32;
}

size_t InterceptedCall::bytes_moved() const {
  size_t bytes = 0;
  const auto add = [&](const c10::TensorImpl* tensor) {
    if (tensor != nullptr && is_supported(tensor)) bytes += tensor->numel() * tensor->itemsize();
  };
  for (const Seen& seen : seen_) add(seen.tensor);
  for (const c10::TensorImpl* tensor : outputs_) add(tensor);
  return bytes;
}

remat::Storage* InterceptedCall::track_output(c10::TensorImpl* tensor) {
  if (tensor == nullptr || !is_supported(tensor)) return nullptr;
  c10::StorageImpl* storage = storage_of(tensor);
  if (storage == nullptr) return nullptr;
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  if (data.get_deleter() != &delete_block || data.get() == nullptr) return nullptr;
  if (host_is_foreign() && (engine_of(data.device()) != engine_ ||
                            !engine().allocator().contains(data.get()))) {
    return nullptr;
  }
  if (TIDEPOOL_MUTANT(5, aliasing_output)) {
    engine().allocator().set_owner(data.get(), nullptr);
  } else if (tensor->unsafe_storage().use_count() != 1) {
    return nullptr;
  }
  remat::Storage* tracked = start_tracking(engine().runtime(), storage, call().reason());
  if (tracked == nullptr) return nullptr;  // an alias
  if (in_optimizer_) {
    tracked->role = remat::Role::kOptimizerState;
  } else if (reads_foreign_) {
    tracked->role = remat::Role::kInput;
  }
  return tracked;
}

void InterceptedCall::finish() {
  if (engine_ == nullptr) return;
  const uint64_t cost_ns = timer_ != nullptr ? timer_->end(timed_, bytes_moved())
                                             : CycleClock::ns_since(kernel_start_);
  end_draw();
  untrusted_.reset();
  // A thread's first parallel kernel decides on how many threads its kernels run.
  if (body_ != nullptr) body_->numeric.threads = NumericState::threads_now();
  if (t_own_kernels != own_kernels_before_) call().refuse(remat::RootReason::kUnsupported);
  if (ran_out_of_memory_since(failures_before_)) [[unlikely]] {
    say_inexact();
    call().refuse(remat::RootReason::kUnsupported);
  }
  if (copies_foreign_) [[unlikely]] verify_foreign();
  DeviceLock lock(engine().mutex());
  if (copies_foreign_ && reads_foreign_) [[unlikely]]
    mark_inputs();
  absl::InlinedVector<remat::Storage*, 4> outputs;
  const bool writes_record = call().record() != nullptr && call().record()->writes();
  if (!writes_record) {
    const size_t recorded =
        call().record() != nullptr ? call().record()->output_count : outputs_.size();
    for (c10::TensorImpl* tensor : outputs_) {
      if (outputs.size() < recorded) outputs.push_back(track_output(tensor));
    }
  }
  if constexpr (tripwire::kAvailable) {
    for (const Seen& seen : seen_) {
      if (seen.storage != nullptr) tripwire::rearm(*seen.storage);
    }
  }
  for (const Seen& seen : seen_) {
    if (TIDEPOOL_MUTANT(1, view_lock) && starts_inside(seen)) ++seen.storage->locks;
  }
  if (!trusted_ || inside_) [[unlikely]] {
    for (remat::Storage* output : outputs) {
      if (output != nullptr) output->fixed = true;  // it may have kept the address
    }
  }
  if (body_ != nullptr && body_->heap_bytes() > 0) call().add_heap_bytes(body_->heap_bytes());
  call().finish(lock, {outputs.data(), outputs.size()}, cost_ns);
  if (info_.keeps_operands) [[unlikely]]
    keep_outputs({outputs.data(), outputs.size()}, lock);
  if (call().reason() == remat::RootReason::kRecordingOff && !engine().runtime().has_lineage())
      [[unlikely]] {
    g_passive.store(!engine().runtime().recording(), std::memory_order_relaxed);
  }
  for (c10::TensorImpl* tensor : outputs_) {
    if (tensor != nullptr && !is_supported(tensor)) [[unlikely]] keep_components(tensor, lock);
  }
  if (captured_generator_ != nullptr) [[unlikely]] keep_captured_state(*captured_generator_, lock);
}

// They may be written after the operator has returned.
void InterceptedCall::keep_outputs(std::span<remat::Storage* const> outputs, DeviceLock& lock) {
  for (remat::Storage* output : outputs) {
    if (output == nullptr || output->dead) continue;
    engine().runtime().escape(output, lock);
    if (!output->dead) tripwire::disarm(static_cast<c10::StorageImpl*>(output->backend));
  }
}

// What a sparse, nested or mkldnn result is made of stays: its kernels read it unseen.
void InterceptedCall::keep_components(c10::TensorImpl* tensor, DeviceLock& lock) {
  const size_t before = seen_.size();
  if (storage_of(tensor) != nullptr) seen_.push_back({tensor});
  see_components(tensor, false);
  for (size_t k = before; k < seen_.size(); ++k) {
    resolve(seen_[k]);
    if (seen_[k].storage != nullptr) engine().runtime().escape(seen_[k].storage, lock);
  }
}

}  // namespace tidepool::torch_glue
