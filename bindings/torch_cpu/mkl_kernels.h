// MKL chooses the kernel of each of its vector functions at the function's first call, and on
// version 2024.2, which PyTorch 2.11 to 2.15 carry, a first call in two threads at once may run a
// kernel of low accuracy in one of them (pytorch/pytorch#188792). A replay would then bring other
// bits than the operator made.
#pragma once

namespace tidepool::torch_cpu {

// Calls each of those functions once, in float and double, before anything is recorded. Takes less
// than a millisecond. Like PyTorch, it cannot help if another thread is in its first call already.
void choose_mkl_kernels();

}  // namespace tidepool::torch_cpu
