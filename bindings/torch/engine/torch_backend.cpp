#include "bindings/torch/engine/torch_backend.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <thread>

#include "allocator/base/origin.h"
#include "bindings/torch/base/cycle_clock.h"
#include "bindings/torch/base/devices.h"
#include "bindings/torch/base/no_warnings.h"
#include "bindings/torch/base/replaying.h"
#include "bindings/torch/calls/call_body.h"
#include "bindings/torch/engine/engine.h"
#include "bindings/torch/engine/work_recorder.h"
#include "bindings/torch/state/default_generator.h"
#include "bindings/torch/storage/gradients.h"
#include "bindings/torch/storage/storage_access.h"
#include "bindings/torch/storage/tripwire.h"

namespace tidepool::torch_glue {
namespace {

using c10::StorageImpl;

c10::intrusive_ptr<StorageImpl> borrow(void* address, size_t bytes, c10::Device device) {
  return c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), bytes,
                                          c10::DataPtr(address, device), nullptr, false);
}

// A storage that an operator may give memory.
c10::intrusive_ptr<StorageImpl> without_bytes(c10::Device device) {
  return c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), 0,
                                          c10::DataPtr(nullptr, device),
                                          c10::GetAllocator(device.type()), true);
}

at::Tensor make_tensor(c10::intrusive_ptr<StorageImpl> storage, const TensorSlot& slot) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKeySet::RAW, slot.keys),
      c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(slot.scalar_type)));
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(c10::IntArrayRef(slot.sizes, slot.dimensions),
                              c10::IntArrayRef(slot.sizes + slot.dimensions, slot.dimensions),
                              slot.offset);
  if (slot.wrapped_number) impl->set_wrapped_number(true);
  return tensor;
}

// Memory of its own for what the operator writes beside its results.
at::Tensor make_stand_in(const TensorSlot& slot, c10::Device device) {
  const c10::DeviceGuard guard(device);
  const at::Tensor made = at::detail::empty_strided_generic(
      c10::IntArrayRef(slot.sizes, slot.dimensions),
      c10::IntArrayRef(slot.sizes + slot.dimensions, slot.dimensions),
      c10::GetAllocator(device.type()), c10::DispatchKeySet(c10::DispatchKeySet::RAW, slot.keys),
      static_cast<c10::ScalarType>(slot.scalar_type));
  if (device.is_cpu()) std::memset(made.mutable_data_ptr(), 0, made.storage().nbytes());
  return made;
}

// The arguments of a replay, standing on storages that own nothing.
torch::jit::Stack make_arguments(const CallBody& body, const remat::Replay& replay,
                                 c10::Device device) {
  torch::jit::Stack stack;
  stack.reserve(body.info().argument_count + 2);
  size_t edge = 0;
  c10::intrusive_ptr<StorageImpl> target;
  const remat::Record& record = *replay.record;
  auto input = [&](size_t k) {
    const remat::Value* value = record.edges[k].value;
    const bool is_target = record.written_edge != remat::Record::kNoEdge &&
                           value == record.edges[record.written_edge].value;
    if (!is_target) return borrow(replay.inputs[k], value->bytes, device);
    if (!target) target = borrow(replay.target, value->bytes, device);
    return target;
  };
  body.push_arguments(stack, [&](const TensorSlot& slot) {
    switch (slot.kind) {
      case TensorSlot::Kind::kEdge:
        return make_tensor(input(edge++), slot);
      case TensorSlot::Kind::kBlank:
        return make_tensor(borrow(replay.target, record.overwritten_bytes, device), slot);
      case TensorSlot::Kind::kImmediate:
        return make_tensor(
            borrow(const_cast<void*>(slot.immediate), slot.storage_bytes, c10::Device(at::kCPU)),
            slot);
      case TensorSlot::Kind::kEmpty:
        return make_tensor(without_bytes(slot.on_host() ? c10::Device(at::kCPU) : device), slot);
      case TensorSlot::Kind::kStandIn:
        return make_stand_in(slot, device);
      case TensorSlot::Kind::kAbsent:
        break;
    }
    return at::Tensor();
  });
  return stack;
}

// Runs the operator below autograd and below us, in the numeric and random state of its record.
void call(const CallBody& body, torch::jit::Stack& stack, c10::Device device) {
  const OperatorInfo& info = body.info();
  std::optional<DefaultGeneratorScope> drawn;
  if (body.random != nullptr) {
    const at::Generator& generator = replay_generator(device);
    body.random->load_into(*generator.unsafeGetGeneratorImpl());
    if (info.generator_argument >= 0) {
      stack[info.generator_argument] = c10::IValue(generator);
    } else {
      drawn.emplace(generator);
    }
  }
  const c10::DispatchKeySet autograd = c10::autograd_dispatch_keyset_with_ADInplaceOrView;
  const c10::DispatchKeySet excluded =
      autograd | c10::python_ks | c10::DispatchKeySet(kInterceptionKey) |
      c10::DispatchKeySet(c10::DispatchKeySet::RAW, body.numeric.autocast_excluded);
  // What the thread has switched on below our key has seen the recorded call, too.
  const c10::DispatchKeySet below =
      c10::impl::tls_local_dispatch_key_set().included_ & kBelowInterception;
  c10::impl::ForceDispatchKeyGuard guard((c10::default_included_set - autograd) | below, excluded);
  NumericScope numeric(body.numeric, host_is_foreign());
  const c10::DeviceGuard device_guard(device);
  at::DisableRecordFunctionGuard unseen;  // the range around this is all that a profiler shows
  const NoWarnings quiet;                 // the recorded call has given them already
  info.kernel().call(info.handle, stack, device);
}

// Takes the bytes of an output from its storage, which nobody else has seen.
void* take_output(Engine& engine, const at::Tensor& tensor, size_t bytes, const char* name) {
  TORCH_CHECK(tensor.defined() && tensor.has_storage(), "Tidepool: the replay of ", name,
              " did not return a tensor where the recorded call did");
  const c10::Storage& held = tensor.unsafeGetTensorImpl()->unsafe_storage();
  StorageImpl* storage = held.unsafeGetStorageImpl();
  c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  TORCH_CHECK(holds_block(data) && engine.allocator().contains(data.get()) && held.use_count() == 1,
              "Tidepool: the replay of ", name, " returned memory that is not fresh");
  TORCH_CHECK(storage->nbytes() >= bytes, "Tidepool: the replay of ", name, " returned ",
              storage->nbytes(), " bytes where the recorded call returned ", bytes);
  void* address = data.get();
  data.release_context();
  storage->set_data_ptr_noswap(c10::DataPtr(nullptr, engine.device()));
  return address;
}

void run_again(const remat::Replay& replay, c10::Device device) {
  const remat::Record& record = *replay.record;
  const CallBody& body = *static_cast<const CallBody*>(record.body);
  torch::jit::Stack stack;
  const uint64_t failures = out_of_memory_count();
  try {
    const ReplayScope scope(body.info().may_run_python());
    stack = make_arguments(body, replay, device);
    std::optional<at::RecordFunction> range;  // only for PyTorch's profilers
    if (torch::profiler::impl::profilerEnabled()) [[unlikely]] {
      range.emplace(at::RecordScope::USER_SCOPE);
      if (range->isActive()) range->before("tidepool::replay " + std::string(body.info().name));
    }
    call(body, stack, device);
    // An operator that went on with less memory need not give what it gave before.
    TORCH_CHECK_WITH(OutOfMemoryError, !ran_out_of_memory_since(failures), body.info().name,
                     " found less memory than when it first ran");
  } catch (const c10::OutOfMemoryError&) {
    rethrow_as_our_error();  // the restoration may have a leaner way
  }
  if (record.writes()) return;
  size_t output = 0;
  std::span<void*> outputs = replay.outputs;
  std::vector<void*> taken(outputs.size(), nullptr);
  auto visit = [&](const at::Tensor& tensor) {
    const size_t k = output++;
    if (k >= outputs.size() || outputs[k] == nullptr) return;
    taken[k] = take_output(*engine_of(device), tensor, replay.output_bytes[k], body.info().name);
  };
  try {
    for (const c10::IValue& value : stack) {
      if (value.isTensor()) visit(value.toTensor());
      if (!value.isTensorList()) continue;
      for (const at::Tensor& tensor : value.toTensorList()) visit(tensor);
    }
  } catch (...) {
    for (void* address : taken) delete_block(address);
    throw;
  }
  for (size_t k = 0; k < outputs.size(); ++k) outputs[k] = taken[k];
}

}  // namespace

namespace {

// Runs the operator on a thread that is in no parallel region, in which kernels of the host would
// work on one thread only, whatever number the recorded call had, and add up in another order.
void run_outside_of_region(const remat::Replay& replay, c10::Device device) {
  const at::ThreadLocalState state;
  const void* const waiting = Origin::this_thread();
  std::exception_ptr error;
  std::thread outside([&] {
    const Origin::WorksFor scope(waiting);
    const at::ThreadLocalStateGuard guard(state);
    try {
      run_again(replay, device);
    } catch (...) {
      error = std::current_exception();
    }
  });
  void* const token = leave_interpreter();
  outside.join();
  if (token != nullptr) enter_interpreter(token);
  if (error) std::rethrow_exception(error);
}

void run_as_recorded(const remat::Replay& replay, c10::Device device) {
  if (!host_is_foreign() && at::in_parallel_region()) return run_outside_of_region(replay, device);
  run_again(replay, device);
}

}  // namespace

void TorchBackend::execute(const remat::Replay& replay) {
  WorkRecorder* const recorder = work_recorder_of(device_);
  if (recorder == nullptr) return run_as_recorded(replay, device_);
  const char* const name = replay.record->type->name;
  const OperatorScope scope(name);
  const uint64_t start = CycleClock::now();
  run_as_recorded(replay, device_);
  recorder->replayed(name, CycleClock::ns_since(start));
}

bool TorchBackend::detach(remat::Storage& storage) {
  void* const address = storage.address;
  if (!take_bytes(static_cast<StorageImpl*>(storage.framework_storage), address, &storage,
                  mutex_)) {
    return false;
  }
  if (WorkRecorder* recorder = work_recorder_of(device_)) recorder->evicted(storage, address);
  return true;
}

bool TorchBackend::attach(remat::Storage& storage, void* address) {
  if (!give_bytes(static_cast<StorageImpl*>(storage.framework_storage), address, &storage,
                  mutex_)) {
    return false;
  }
  if (WorkRecorder* recorder = work_recorder_of(device_)) recorder->restored(storage, address);
  return true;
}

bool TorchBackend::watch(remat::Storage& storage) { return tripwire::rearm(storage); }

remat::Storage* TorchBackend::gradient_of(const remat::Storage& storage, size_t threads) {
  return threads <= threads_of_one_job() ? find_gradient(storage) : nullptr;
}

void TorchBackend::forget(remat::Storage& storage) {
  if (storage.backend_notes != nullptr) forget_parameter(storage);
  if (WorkRecorder* recorder = work_recorder_of(device_)) recorder->forgotten(storage);
  drop_weak_hold(static_cast<StorageImpl*>(storage.framework_storage));
}

// Of CPU generators only, which a process has for one engine.
size_t TorchBackend::shared_bytes() const { return device_.is_cpu() ? random_state_bytes() : 0; }

size_t TorchBackend::side_bytes() const {
  const Engine* engine = engine_of(device_);
  return engine != nullptr ? engine->foreign_copies().bookkeeping_bytes() : 0;
}

bool TorchBackend::give_up_memory(DeviceLock& lock) {
  Engine* engine = engine_of(device_);
  return engine != nullptr && engine->foreign_copies().give_up(lock);
}

}  // namespace tidepool::torch_glue
