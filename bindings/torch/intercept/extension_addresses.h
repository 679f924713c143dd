// Addresses of tensors that C++ code outside of PyTorch's libraries asks for in a Python job:
// functions of extensions, their autograd functions and hooks, on 2.11 as well. Their calls of
// at::TensorBase::data_ptr<T>() and its kin are redirected here: what is evicted is restored,
// counts as written (on every version; see tripwire.h for those that notice it by themselves), and
// stays where it is. Within operators nothing is done: they have what they were given. A function
// that asks without a type (`data_ptr()`, `storage()`) is compiled into the extension, and is not
// seen. Thread safe.
#pragma once

namespace tidepool::torch_glue {

// Returns what stands in for a function of PyTorch's by its symbol; nullptr: nothing does.
void* replacement_of_address_getter(const char* symbol);

}  // namespace tidepool::torch_glue
