// The kernels behind CheckKernels, for every architecture that this compiler and we support.
#include "allocator/base/fingerprint.h"

// Adds the sum over all words of `bytes` to *sum. Any grid of whole warps.
extern "C" __global__ void tidepool_fingerprint(const void* bytes, unsigned long long count,
                                                unsigned long long* sum) {
  const size_t first = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  unsigned long long part = tidepool::fingerprint_part(bytes, count, first, stride);
  for (int lanes = 16; lanes > 0; lanes /= 2) part += __shfl_down_sync(~0u, part, lanes);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, part);
}

// Overwrites bytes; a kernel rather than a memset so that a poisoned block shows up by name in a
// profile. `bytes` is aligned to 8.
extern "C" __global__ void tidepool_poison(void* bytes, unsigned long long count,
                                           unsigned long long pattern) {
  const size_t first = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  auto* words = static_cast<unsigned long long*>(bytes);
  const size_t whole = count / 8;
  for (size_t i = first; i < whole; i += stride) words[i] = pattern;
  auto* rest = static_cast<unsigned char*>(bytes) + whole * 8;
  if (first < count % 8) rest[first] = static_cast<unsigned char>(pattern >> (8 * first));
}
