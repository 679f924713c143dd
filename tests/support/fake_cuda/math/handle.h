// Handle: what a cuBLAS or cuDNN handle points to here. Not thread safe, as there.
#pragma once

#include <cstddef>

namespace tidepool::fake_cuda::math {

struct Handle {
  void* stream = nullptr;
  int math_mode = 0;
  int pointer_mode = 0;
};

// Enqueues an operation on the handle's stream. What generated functions that compute call.
int launch(void* handle, const char* function);

}  // namespace tidepool::fake_cuda::math
