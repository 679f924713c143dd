// Says which shared library a kernel lies in. Thread safe.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>

#include <string>

namespace tidepool::torch_glue {

// The path of the library that the kernel's code lies in. For a kernel in Python that is
// PyTorch's own library for Python; "" if it is not known.
std::string kernel_library(const c10::KernelFunction& kernel);

// Whether the kernel is, as far as can be told, one that PyTorch brings itself: for the CPU, in the
// library that has its dispatcher; for devices, where stand-ins have libraries of their own, any
// that is not in Python. One whose library is not known counts as PyTorch's.
bool is_brought_by_torch(const c10::KernelFunction& kernel, bool of_cpu);

}  // namespace tidepool::torch_glue
