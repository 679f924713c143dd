// Redirected calls: replacements for a few functions of PyTorch's that its libraries, and others,
// call.
// Two of these look at pointers of storages without an operator, and without need for the bytes;
// the replacements answer for storages of ours, evicted or not.
// - One says whether two storages share their bytes; from 2.12 on an assignment to an element asks
// for it.
// - One says what the profiler notes of a tensor; an evicted tensor's address is null.
// - One, in the CPU plugin, gives the allocator of storages that Python makes, which is ours.
// - One, in the CUDA plugin, gives kernels the device's default generator: default_generator.h.
// - One, in the CUDA plugin, keeps gradients resident that go to another stream:
// gradient_streams.h.
// - One, in the CUDA plugin, finds what futures will ask for the address of: future_storages.h.
// - Some, in the CUDA plugin, are NCCL's: nccl_calls.h.
// - One prints a tensor, whose elements it reads by itself: raw_readers.h.
// - Some give the addresses of tensors to libraries that are not PyTorch's: extension_addresses.h.
#pragma once

namespace tidepool::torch_glue {

// Puts the replacements in the place of the originals in every library that has been loaded since
// the last call, also in one whose table of functions the loader has made read-only (linked with
// -z now). Called when Tidepool attaches, and after Python has loaded a library. Returns whether
// one of these registers kernels, and so may have replaced some of PyTorch's. Thread safe.
bool redirect_calls();

}  // namespace tidepool::torch_glue
