// Asks PyTorch's generator what a recurrent layer with dropout asks it. cuDNN's layers themselves
// are not in the stand-in.
#include <ATen/Context.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>

#include "tests/support/fake_cuda/core/export.h"

// A recurrent layer begins on a device: returns 1 if it makes its dropout state anew, because the
// generator was set since the last one began.
FAKE_CUDA_API int fake_cuda_recurrent_layer_begins(int device) {
  const at::Generator& generator = at::globalContext().defaultGenerator(
      c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device)));
  auto& of_cuda = *static_cast<at::CUDAGeneratorImpl*>(generator.unsafeGetGeneratorImpl());
  const std::scoped_lock lock(of_cuda.mutex_);
  return of_cuda.reset_rnn_state() ? 1 : 0;
}
