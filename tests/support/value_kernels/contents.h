// Contents: what a tensor holds, read and written directly in memory. The stand-in device maps its
// memory at device addresses, so this works for CUDA tensors as for others.
// Elements are taken in logical order, whatever the strides are, packed without gaps. Nothing is
// allocated through PyTorch and no operator is called. Thread safe for different memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <cstdint>
#include <vector>

namespace tidepool::value_kernels {

// The elements of a tensor, packed. Aligned to 16, as memory from operator new is.
using Packed = std::vector<char>;

// False for what has no plain elements: undefined, sparse, nested, lazily conjugated or negated.
bool has_contents(const at::Tensor& tensor);

// Requires of all below: has_contents(tensor).
Packed read_contents(const at::Tensor& tensor);
// The same as if it had been expanded to `sizes`.
Packed read_expanded(const at::Tensor& tensor, c10::IntArrayRef sizes);
void write_contents(const at::Tensor& tensor, const Packed& packed);

// Of dtype, shape and elements; neither of strides nor of the address.
uint64_t hash_contents(const at::Tensor& tensor);

// Writes elements that follow from `seed`, a hash: floating ones in [-1, 1), integers in [0, 128),
// booleans.
void write_hashed(const at::Tensor& tensor, uint64_t seed);
// Writes 1 into all elements of about one seed in eight, and else 0.
void write_rare_flag(const at::Tensor& tensor, uint64_t seed);
void write_number(const at::Tensor& tensor, const c10::Scalar& number);

// The elements in another dtype; through double where the dtypes differ, so that integers above
// 2^53 are rounded, always alike.
Packed convert(Packed packed, c10::ScalarType from, c10::ScalarType to);

}  // namespace tidepool::value_kernels
