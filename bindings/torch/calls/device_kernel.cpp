#include "bindings/torch/calls/device_kernel.h"

#include "bindings/torch/base/devices.h"
#include "bindings/torch/calls/kernel_library.h"

namespace tidepool::torch_glue {
namespace {

// c10::OperatorHandle keeps its operator's dispatch table private. Explicit instantiations may name
// private members.
const c10::impl::OperatorEntry& entry_of(const c10::OperatorHandle& op);
template <auto Member>
struct DefinitionMember {
  friend const c10::impl::OperatorEntry& entry_of(const c10::OperatorHandle& op) {
    return (op.*Member)->op;
  }
};
template struct DefinitionMember<&c10::OperatorHandle::operatorDef_>;

c10::DispatchKey backend_key() {
  return host_is_foreign() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
}

// PyTorch has kernels in Python for CUDA, and stand-ins for a device have libraries of their own.
bool is_of_torch(const c10::KernelFunction* kernel, c10::DispatchKey key) {
  return kernel == nullptr || c10::toBackendComponent(key) != c10::BackendComponent::CPUBit ||
         lies_beside_dispatcher(*kernel);
}

}  // namespace

const c10::KernelFunction* kernel_of(const c10::OperatorHandle& op, c10::DispatchKey key) {
  const c10::impl::OperatorEntry& entry = entry_of(op);
  if (!entry.hasComputedKernelForDispatchKey(key)) return nullptr;
  return &entry.lookup(c10::DispatchKeySet(key));
}

void DeviceKernel::remember(const c10::OperatorHandle& op) {
  const c10::KernelFunction* const slot = kernel_of(op, backend_key());
  if (slot != nullptr) known_.store(new Known{*slot, {}}, std::memory_order_release);
  slot_.store(slot, std::memory_order_release);
}

void DeviceKernel::note_router() {
  const c10::KernelFunction* const slot = slot_.load(std::memory_order_acquire);
  if (slot == nullptr) return;
  const c10::KernelFunction& own = known_.load(std::memory_order_acquire)->own;
  known_.store(new Known{own, *slot}, std::memory_order_release);
}

bool DeviceKernel::is_replaced() const {
  const c10::KernelFunction* const slot = slot_.load(std::memory_order_acquire);
  if (slot == nullptr) return false;
  const Known& known = *known_.load(std::memory_order_acquire);
  return !slot->_equalsBoxedAndUnboxed(known.own) && !slot->_equalsBoxedAndUnboxed(known.router);
}

bool DeviceKernel::has_router() const {
  const Known* const known = known_.load(std::memory_order_acquire);
  return known != nullptr && known->router.isValid();
}

bool DeviceKernel::is_of_torch() const {
  return torch_glue::is_of_torch(slot_.load(std::memory_order_acquire), backend_key());
}

void DeviceKernel::call(const c10::OperatorHandle& op, torch::jit::Stack& stack,
                        c10::Device device) const {
  const c10::KernelFunction* const slot = slot_.load(std::memory_order_acquire);
  if (slot == nullptr) return op.callBoxed(&stack);
  const c10::KernelFunction& own = known_.load(std::memory_order_acquire)->own;
  if (slot->_equalsBoxedAndUnboxed(own)) return op.callBoxed(&stack);
  const c10::DispatchKey key = device.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  own.callBoxed(op, c10::DispatchKeySet(key), &stack);
}

std::string kernel_library(const c10::OperatorHandle& op) {
  const c10::KernelFunction* const kernel = kernel_of(op, backend_key());
  return kernel != nullptr ? kernel_library(*kernel) : "";
}

bool is_kernel_of_torch(const c10::OperatorHandle& op, c10::DispatchKey key) {
  return is_of_torch(kernel_of(op, key), key);
}

}  // namespace tidepool::torch_glue
