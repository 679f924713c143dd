// Says which shared library a kernel lies in. Thread safe.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>

#include <string>

namespace tidepool::torch_glue {

// The path of the library that the kernel's code lies in. For a kernel in Python that is
// PyTorch's own library for Python; "" if it is not known.
std::string kernel_library(const c10::KernelFunction& kernel);

// Whether the kernel lies in the library that has PyTorch's dispatcher, as all of its own for the
// CPU do, or nobody can tell where it lies.
bool lies_beside_dispatcher(const c10::KernelFunction& kernel);

}  // namespace tidepool::torch_glue
