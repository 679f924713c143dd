#include "tests/support/value_kernels/operand_uses.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <atomic>

#include "tests/support/value_kernels/contents.h"

namespace tidepool::value_kernels {
namespace {

std::atomic<bool> g_watching{false};

// A function of the stand-in device's, which is in the process.
template <class Function>
Function* find(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  TORCH_CHECK(found != nullptr, "value kernels need the stand-in CUDA device");
  return reinterpret_cast<Function*>(found);
}

void* handle_of(const c10::Stream& stream) {
  return c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getStreamNativeHandle(stream);
}

}  // namespace

void OperandUses::watch(bool on) { g_watching = on; }
bool OperandUses::is_watching() { return g_watching.load(std::memory_order_relaxed); }

void OperandUses::add(const torch::jit::Stack& stack, size_t count) {
  for (size_t k = stack.size() - count; k < stack.size(); ++k) add(stack[k]);
}

void OperandUses::add(const c10::IValue& value) {
  if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isTensor()) add(element);
    }
  } else if (value.isTensor() && has_contents(value.toTensor()) && value.toTensor().is_cuda()) {
    storages_.push_back(value.toTensor().storage());
  }
}

void OperandUses::add_written(const c10::IValue& value) {
  if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) add_written(element);
  } else if (value.isTensor() && has_contents(value.toTensor()) && value.toTensor().is_cuda()) {
    written_.push_back(value.toTensor());
  }
}

void OperandUses::declare(bool launched) const {
  static auto* const used = find<void(const void*, size_t, void*)>("fake_cuda_range_used");
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  for (const c10::Storage& storage : storages_) {
    if (storage.data() == nullptr) continue;
    used(storage.data(), storage.nbytes(), handle_of(guard.getStream(storage.device())));
  }
  if (!launched) return;
  static auto* const wrote = find<void(const void*, size_t, void*)>("fake_cuda_range_written");
  for (const at::Tensor& tensor : written_) {
    if (tensor.storage().data() == nullptr || tensor.numel() == 0) continue;
    const size_t bytes =
        at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
    wrote(tensor.const_data_ptr(), bytes, handle_of(guard.getStream(tensor.device())));
  }
}

void settle_streams() {
  static auto* const settle = find<void(void*)>("fake_cuda_settle");
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  for (c10::DeviceIndex k = 0; k < guard.deviceCount(); ++k) {
    settle(handle_of(guard.getStream(c10::Device(c10::DeviceType::CUDA, k))));
  }
}

void declare_shared(const at::Tensor& tensor, const c10::Stream& stream) {
  static auto* const shared = find<void(const void*, void*)>("fake_cuda_range_shared");
  if (tensor.storage().data() != nullptr) shared(tensor.storage().data(), handle_of(stream));
}

}  // namespace tidepool::value_kernels
