#include "bindings/torch/state/default_generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <utility>

namespace tidepool::torch_glue {
namespace {

thread_local const at::Generator* t_default = nullptr;  // of a scope; else nullptr
thread_local bool t_was_asked = false;                  // default_cuda_generator() was called

}  // namespace

DefaultGeneratorScope::DefaultGeneratorScope(const at::Generator& generator)
    : outer_(std::exchange(t_default, &generator)) {}

DefaultGeneratorScope::~DefaultGeneratorScope() { t_default = outer_; }

bool DefaultGeneratorScope::is_possible(c10::Device device) {
  if (device.is_cpu()) return false;
  static const bool is_redirected = [device] {
    t_was_asked = false;
    at::globalContext().defaultGenerator(device);  // asks as kernels do
    return t_was_asked;
  }();
  return is_redirected;
}

const at::Generator& default_cuda_generator(c10::DeviceIndex device) {
  t_was_asked = true;
  if (t_default != nullptr) {
    const c10::DeviceIndex own = t_default->device().index();
    if (device < 0) device = c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice().index();
    if (device == own) return *t_default;
  }
  using Function = const at::Generator& (*)(c10::DeviceIndex);
  static const auto original = reinterpret_cast<Function>(
      dlsym(dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_LAZY), kDefaultCudaGenerator));
  return original(device);
}

c10::GeneratorImpl& default_generator(c10::Device device) {
  const at::Generator* const scope = std::exchange(t_default, nullptr);
  c10::GeneratorImpl* const found =
      at::globalContext().defaultGenerator(device).unsafeGetGeneratorImpl();
  t_default = scope;
  return *found;
}

at::Generator new_generator(c10::Device device) {
  return device.is_cpu() ? at::detail::createCPUGenerator()
                         : at::detail::getCUDAHooks().getNewGenerator(device.index());
}

}  // namespace tidepool::torch_glue
