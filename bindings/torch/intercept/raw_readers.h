// Raw readers: composite operators that read the elements of an argument by themselves, ask for its
// address, or resize it. They run above our key, where nothing restores or locks what they read,
// and keep the pointer while the operators run that they are made of. Wrappers keep such an
// argument resident and locked all the while. at::print(), by which C++ and errors print a tensor,
// is none of the dispatcher's: a replacement does the same. Thread safe once they are registered.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <iosfwd>
#include <vector>

namespace tidepool::torch_glue {

// Registers the wrappers of all raw readers that this PyTorch has.
void register_raw_readers(std::vector<c10::RegistrationHandleRAII>& handles);

// Whether the operator's kernel for the engines' device is one of these wrappers.
bool has_raw_readers_kernel(const c10::OperatorName& name);

// The name of at::print() to a stream, which libraries call.
inline constexpr const char* kPrintTensor = "_ZN2at5printERSoRKNS_6TensorEl";

// Replaces it. `width`: of a line, in characters. Throws: c10::OutOfMemoryError if the tensor
// cannot be brought back.
std::ostream& print_tensor(std::ostream& stream, const at::Tensor& tensor, int64_t width);

}  // namespace tidepool::torch_glue
