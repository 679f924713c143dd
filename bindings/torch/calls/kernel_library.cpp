#include "bindings/torch/calls/kernel_library.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

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

// Where a library lies that has been loaded.
struct Range {
  uintptr_t inside = 0;  // an address in it
  uintptr_t begin = UINTPTR_MAX, end = 0;
};

int find_range(dl_phdr_info* library, size_t, void* wanted) {
  Range found;
  for (const auto& part : std::span(library->dlpi_phdr, library->dlpi_phnum)) {
    if (part.p_type != PT_LOAD) continue;
    const uintptr_t begin = library->dlpi_addr + part.p_vaddr;
    found.begin = std::min(found.begin, begin);
    found.end = std::max(found.end, begin + part.p_memsz);
  }
  auto& range = *static_cast<Range*>(wanted);
  if (range.inside < found.begin || range.inside >= found.end) return 0;
  range = {range.inside, found.begin, found.end};
  return 1;
}

enum class Place { kBesideDispatcher, kElsewhere, kUnknown };

// Thousands of kernels are asked for when a job starts. dladdr() looks through all symbols of a
// library that it finds, and PyTorch's has very many.
Place place_of(const void* address) {
  static const Range own = [] {
    Range range{reinterpret_cast<uintptr_t>(&c10::Dispatcher::realSingleton)};
    dl_iterate_phdr(&find_range, &range);
    return range;
  }();
  const auto place = reinterpret_cast<uintptr_t>(address);
  if (place >= own.begin && place < own.end) return Place::kBesideDispatcher;
  return library_of(address).empty() ? Place::kUnknown : Place::kElsewhere;
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
  const c10::BoxedKernel& boxed = boxed_kernel_of(kernel);
  if (place_of(wrapped_function_of(functor_of(boxed))) == Place::kElsewhere) return false;
  Place place = place_of(unboxed_function_of(kernel));
  if (place == Place::kUnknown) place = place_of(boxed_function_of(boxed));
  return place != Place::kElsewhere;
}

}  // namespace tidepool::torch_glue
