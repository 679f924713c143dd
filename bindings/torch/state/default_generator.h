// DefaultGeneratorScope: hands a generator to CUDA kernels that take none, and ask for the device's
// default one. For that, PyTorch's call by which they ask is redirected (redirected_calls.h).
// Thread safe.
#pragma once

#include <ATen/core/Generator.h>

namespace tidepool::torch_glue {

// A scope in which CUDA kernels of the calling thread that ask for the default generator of the
// generator's device are given this generator. Scopes may be nested.
class DefaultGeneratorScope {
 public:
  explicit DefaultGeneratorScope(const at::Generator& generator);
  ~DefaultGeneratorScope();
  DefaultGeneratorScope(const DefaultGeneratorScope&) = delete;
  DefaultGeneratorScope& operator=(const DefaultGeneratorScope&) = delete;

  // Whether PyTorch's kernels on the device are given it: where they run on the CPU, or where the
  // call by which they ask could not be redirected, they are not. Requires: the device is in use.
  static bool is_possible(c10::Device device);

 private:
  const at::Generator* const outer_;
};

// Stands for at::cuda::detail::getDefaultCUDAGenerator(), whose symbol has this name, and which
// takes -1 for the current device.
constexpr const char* kDefaultCudaGenerator = "_ZN2at4cuda6detail23getDefaultCUDAGeneratorEa";
const at::Generator& default_cuda_generator(c10::DeviceIndex device);

// The job's default generator, also within such a scope.
c10::GeneratorImpl& default_generator(c10::Device device);
at::Generator new_generator(c10::Device device);

}  // namespace tidepool::torch_glue
