// mkl_kernels: a way around a fault of MKL, which chooses the kernel of each of its vector
// functions at the function's first call. In version 2024.2, which PyTorch 2.11 to 2.15 carry, one
// of two threads that make the first call at once may run a kernel of low accuracy
// (pytorch/pytorch#188792). A replay would then bring other bits than the operator made.
#pragma once

namespace tidepool::torch_cpu {

// Calls each of MKL's vector functions once, in float and double. Takes less than a millisecond.
// Requires: nothing is recorded yet. Does not help if another thread is in a first call already.
void choose_mkl_kernels();

}  // namespace tidepool::torch_cpu
