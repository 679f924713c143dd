#include "bindings/torch/calls/kernel_library.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <malloc.h>

#include <cstring>

namespace tidepool::torch_glue {
namespace {

// PyTorch keeps the functions of kernels private. Explicit instantiations may name private members.
const c10::BoxedKernel& boxed_kernel_of(const c10::KernelFunction& kernel);
const void* unboxed_function_of(const c10::KernelFunction& kernel);
const c10::OperatorKernel* functor_of(const c10::BoxedKernel& kernel);
const void* boxed_function_of(const c10::BoxedKernel& kernel);

template <auto Boxed, auto Unboxed>
struct KernelMembers {
  friend const c10::BoxedKernel& boxed_kernel_of(const c10::KernelFunction& kernel) {
    return kernel.*Boxed;
  }
  friend const void* unboxed_function_of(const c10::KernelFunction& kernel) {
    return kernel.*Unboxed;
  }
};
template struct KernelMembers<&c10::KernelFunction::boxed_kernel_func_,
                              &c10::KernelFunction::unboxed_kernel_func_>;

template <auto Functor, auto Function>
struct BoxedMembers {
  friend const c10::OperatorKernel* functor_of(const c10::BoxedKernel& kernel) {
    return (kernel.*Functor).get();
  }
  friend const void* boxed_function_of(const c10::BoxedKernel& kernel) {
    return reinterpret_cast<const void*>(kernel.*Function);
  }
};
template struct BoxedMembers<&c10::BoxedKernel::functor_, &c10::BoxedKernel::boxed_kernel_func_>;

std::string library_of(const void* address) {
  Dl_info found{};
  return address != nullptr && dladdr(address, &found) != 0 ? found.dli_fname : "";
}

// The function that a functor wraps, which lies behind its base class. Functors come from the heap,
// where the bytes up to malloc's own size are there in any case.
const void* wrapped_function_of(const c10::OperatorKernel* functor) {
  const void* function = nullptr;
  const size_t end = sizeof(c10::OperatorKernel) + sizeof(function);
  if (functor == nullptr || malloc_usable_size(const_cast<c10::OperatorKernel*>(functor)) < end) {
    return nullptr;
  }
  std::memcpy(&function, reinterpret_cast<const char*>(functor) + sizeof(c10::OperatorKernel),
              sizeof(function));
  return function;
}

}  // namespace

// Libraries share the code of templates, so that the wrapper around a function may be another
// library's: the function itself comes first.
std::string kernel_library(const c10::KernelFunction& kernel) {
  const c10::BoxedKernel& boxed = boxed_kernel_of(kernel);
  std::string library = library_of(wrapped_function_of(functor_of(boxed)));
  if (library.empty()) library = library_of(unboxed_function_of(kernel));
  if (library.empty()) library = library_of(boxed_function_of(boxed));
  return library;
}

// A functor without a function of its own may have anything behind its base class, so that what is
// found there is believed only where it speaks against the kernel.
bool lies_beside_dispatcher(const c10::KernelFunction& kernel) {
  static const std::string own =
      library_of(reinterpret_cast<const void*>(&c10::Dispatcher::realSingleton));
  const c10::BoxedKernel& boxed = boxed_kernel_of(kernel);
  const std::string wrapped = library_of(wrapped_function_of(functor_of(boxed)));
  std::string wrapper = library_of(unboxed_function_of(kernel));
  if (wrapper.empty()) wrapper = library_of(boxed_function_of(boxed));
  return (wrapped.empty() || wrapped == own) && (wrapper.empty() || wrapper == own);
}

}  // namespace tidepool::torch_glue
