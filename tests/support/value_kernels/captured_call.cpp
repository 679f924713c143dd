#include "tests/support/value_kernels/captured_call.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <memory>
#include <optional>
#include <utility>

#include "tests/support/value_kernels/contents.h"
#include "tests/support/value_kernels/value_call.h"

namespace tidepool::value_kernels {
namespace {

using CaptureWork = int (*)(void*, void (*)(void*), void (*)(void*), void*);

int capture_work(void (*work)(void*), void (*drop)(void*), void* data) {
  static const auto function =
      reinterpret_cast<CaptureWork>(dlsym(RTLD_DEFAULT, "fake_cuda_capture_work"));
  TORCH_CHECK(function != nullptr, "value kernels need the stand-in CUDA device");
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  const c10::Stream stream = guard.getStream(guard.getDevice());
  return function(guard.getStreamNativeHandle(stream), work, drop, data);
}

}  // namespace

bool CapturedCall::is_capturing() { return capture_work(nullptr, nullptr, nullptr) != 0; }

CapturedCall::CapturedCall(const OperatorFacts& facts, const torch::jit::Stack& stack)
    : facts_(facts) {
  for (size_t k = stack.size() - facts.arguments.size(); k < stack.size(); ++k) {
    arguments_.push_back(borrowed(stack[k]));
  }
}

void CapturedCall::hand_over(std::unique_ptr<CapturedCall> call, const torch::jit::Stack& stack) {
  for (size_t k = stack.size() - call->facts_.returns; k < stack.size(); ++k) {
    call->results_.push_back(call->borrowed(stack[k]));
  }
  const int is_taken =
      capture_work([](void* data) { static_cast<const CapturedCall*>(data)->write(); },
                   [](void* data) { delete static_cast<CapturedCall*>(data); }, call.get());
  if (is_taken != 0) (void)call.release();
}

void CapturedCall::write() const {
  ValueCall call(facts_, arguments_);
  call.write_results(results_);
}

c10::IValue CapturedCall::borrowed(const c10::IValue& value) {
  if (value.isTensor()) return borrowed(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(borrowed(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& each : value.toListRef()) {
      list.push_back(each.isTensor() ? std::optional(borrowed(each.toTensor())) : std::nullopt);
    }
    return list;
  }
  return value;
}

// A tensor over the same memory, which keeps neither it nor its owner alive.
at::Tensor CapturedCall::borrowed(const at::Tensor& tensor) {
  if (!has_contents(tensor) || !tensor.is_cuda()) return tensor;
  c10::StorageImpl* const storage =
      tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  auto found = storages_.find(storage);
  if (found == storages_.end()) {
    const auto* first = static_cast<const char*>(tensor.const_data_ptr());
    const char* start = first - tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
    c10::DataPtr data(const_cast<char*>(start), tensor.device());
    c10::Storage made(c10::Storage::use_byte_size_t{}, storage->nbytes(), std::move(data), nullptr,
                      false);
    found = storages_.emplace(storage, std::move(made)).first;
  }
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(found->second), c10::DispatchKeySet(c10::DispatchKey::CUDA), tensor.dtype());
  made.unsafeGetTensorImpl()->set_storage_offset(tensor.storage_offset());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  return made;
}

}  // namespace tidepool::value_kernels
