#include "tests/support/value_kernels/contents.h"

#include <c10/core/ScalarType.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <c10/util/complex.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "allocator/base/fingerprint.h"
#include "tests/support/value_kernels/mixing.h"

namespace tidepool::value_kernels {
namespace {

// Calls visit(offset, count, stride), in elements, for the rows of a tensor in logical order.
template <class Visit>
void for_each_row(c10::IntArrayRef sizes, c10::IntArrayRef strides, Visit&& visit) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return;
  if (sizes.empty()) return visit(int64_t{0}, int64_t{1}, int64_t{1});
  const size_t outer = sizes.size() - 1;
  std::vector<int64_t> at(outer, 0);
  int64_t offset = 0;
  while (true) {
    visit(offset, sizes[outer], strides[outer]);
    size_t dimension = outer;
    while (dimension > 0) {
      --dimension;
      offset += strides[dimension];
      if (++at[dimension] < sizes[dimension]) break;
      offset -= strides[dimension] * sizes[dimension];
      at[dimension] = 0;
      if (dimension == 0) return;
    }
    if (outer == 0) return;
  }
}

// Copies `count` elements between memory with gaps and packed memory.
template <size_t kBytes>
void copy_row(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t count) {
  for (int64_t k = 0; k < count; ++k) {
    std::memcpy(to + k * to_stride * int64_t{kBytes}, from + k * from_stride * int64_t{kBytes},
                kBytes);
  }
}

void copy_row(size_t bytes, char* to, int64_t to_stride, const char* from, int64_t from_stride,
              int64_t count) {
  switch (bytes) {
    case 1:
      return copy_row<1>(to, to_stride, from, from_stride, count);
    case 2:
      return copy_row<2>(to, to_stride, from, from_stride, count);
    case 4:
      return copy_row<4>(to, to_stride, from, from_stride, count);
    case 8:
      return copy_row<8>(to, to_stride, from, from_stride, count);
    case 16:
      return copy_row<16>(to, to_stride, from, from_stride, count);
    default:
      TORCH_CHECK(false, "value kernels: elements of ", bytes, " bytes");
  }
}

Packed gather(const at::Tensor& tensor, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  const size_t element = tensor.itemsize();
  Packed packed(c10::multiply_integers(sizes) * element);
  const auto* from = static_cast<const char*>(tensor.const_data_ptr());
  if (packed.empty() || from == nullptr) return packed;
  char* to = packed.data();
  for_each_row(sizes, strides, [&](int64_t offset, int64_t count, int64_t stride) {
    copy_row(element, to, 1, from + offset * int64_t(element), stride, count);
    to += count * element;
  });
  return packed;
}

// Calls body with a value of the C++ type of a dtype; false if there is none.
template <class Body>
bool with_type(c10::ScalarType type, Body&& body) {
  using c10::ScalarType;
  switch (type) {
    case ScalarType::Float:
      body(float{});
      return true;
    case ScalarType::Double:
      body(double{});
      return true;
    case ScalarType::Half:
      body(c10::Half{});
      return true;
    case ScalarType::BFloat16:
      body(c10::BFloat16{});
      return true;
    case ScalarType::Byte:
      body(uint8_t{});
      return true;
    case ScalarType::Char:
      body(int8_t{});
      return true;
    case ScalarType::Short:
      body(int16_t{});
      return true;
    case ScalarType::Int:
      body(int32_t{});
      return true;
    case ScalarType::Long:
      body(int64_t{});
      return true;
    case ScalarType::Bool:
      body(bool{});
      return true;
    case ScalarType::ComplexFloat:
      body(c10::complex<float>{});
      return true;
    case ScalarType::ComplexDouble:
      body(c10::complex<double>{});
      return true;
    default:
      return false;
  }
}

template <class Element>
double to_double(Element element) {
  if constexpr (std::is_same_v<Element, c10::complex<float>> ||
                std::is_same_v<Element, c10::complex<double>>) {
    return element.real();
  } else {
    return static_cast<double>(element);
  }
}

template <class Element>
Element from_double(double number) {
  if constexpr (std::is_integral_v<Element> && !std::is_same_v<Element, bool>) {
    return static_cast<Element>(static_cast<int64_t>(number));
  } else if constexpr (std::is_same_v<Element, c10::Half> ||
                       std::is_same_v<Element, c10::BFloat16>) {
    return Element(static_cast<float>(number));
  } else {
    return static_cast<Element>(number);
  }
}

// In [-1, 1), from the upper half of a hash.
float fraction(uint64_t hash) {
  return static_cast<float>(static_cast<int64_t>(hash >> 40) - (1 << 23)) / (1 << 23);
}

template <class Element>
Element element_of(uint64_t hash) {
  if constexpr (std::is_same_v<Element, bool>) {
    return (hash & 1) != 0;
  } else if constexpr (std::is_integral_v<Element>) {
    return static_cast<Element>(hash & 127);
  } else if constexpr (std::is_same_v<Element, c10::complex<float>> ||
                       std::is_same_v<Element, c10::complex<double>>) {
    return Element(fraction(hash), fraction(hash << 24));
  } else {
    return Element(fraction(hash));
  }
}

template <class Element, class Make>
Packed fill_packed(int64_t count, Make&& make) {
  Packed packed(count * sizeof(Element));
  for (int64_t k = 0; k < count; ++k) {
    const Element element = make(k);
    std::memcpy(packed.data() + k * sizeof(Element), &element, sizeof(Element));
  }
  return packed;
}

}  // namespace

bool has_contents(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == c10::kStrided && tensor.has_storage() &&
         !tensor.is_conj() && !tensor.is_neg() && !tensor.is_nested();
}

Packed read_contents(const at::Tensor& tensor) {
  const auto* from = static_cast<const char*>(tensor.const_data_ptr());
  if (tensor.is_contiguous() && from != nullptr) {
    return Packed(from, from + tensor.numel() * tensor.itemsize());
  }
  return gather(tensor, tensor.sizes(), tensor.strides());
}

Packed read_expanded(const at::Tensor& tensor, c10::IntArrayRef sizes) {
  if (tensor.sizes() == sizes) return read_contents(tensor);
  std::vector<int64_t> strides(sizes.size(), 0);
  const size_t missing = sizes.size() - tensor.dim();
  for (size_t k = missing; k < sizes.size(); ++k) {
    if (tensor.size(k - missing) != 1) strides[k] = tensor.stride(k - missing);
  }
  return gather(tensor, sizes, strides);
}

// Through a const pointer: what watches for raw writers is not to take us for one.
void write_contents(const at::Tensor& tensor, const Packed& packed) {
  auto* to = const_cast<char*>(static_cast<const char*>(tensor.const_data_ptr()));
  if (packed.empty() || to == nullptr) return;
  if (tensor.is_contiguous()) {
    std::memcpy(to, packed.data(), packed.size());
    return;
  }
  const size_t element = tensor.itemsize();
  const char* from = packed.data();
  for_each_row(tensor.sizes(), tensor.strides(),
               [&](int64_t offset, int64_t count, int64_t stride) {
                 copy_row(element, to + offset * int64_t(element), stride, from, 1, count);
                 from += count * element;
               });
}

uint64_t hash_contents(const at::Tensor& tensor) {
  uint64_t hash = static_cast<uint64_t>(tensor.scalar_type());
  for (int64_t size : tensor.sizes()) hash = mixed(hash, size);
  const void* address = tensor.const_data_ptr();
  const size_t bytes = tensor.numel() * tensor.itemsize();
  if (tensor.is_contiguous() && address != nullptr &&
      reinterpret_cast<uintptr_t>(address) % alignof(uint64_t) == 0) {
    return mixed(hash, fingerprint(address, bytes));
  }
  return mixed(hash, fingerprint(read_contents(tensor).data(), bytes));
}

void write_hashed(const at::Tensor& tensor, uint64_t seed) {
  const int64_t count = tensor.numel();
  const bool known = with_type(tensor.scalar_type(), [&](auto kind) {
    using Element = decltype(kind);
    write_contents(tensor, fill_packed<Element>(count, [&](int64_t k) {
                     return element_of<Element>(mixed_word(seed, k));
                   }));
  });
  if (known) return;
  // Small floats and the like: no infinities and no NaN below 0x40.
  write_contents(tensor, fill_packed<uint8_t>(count * tensor.itemsize(), [&](int64_t k) {
                   return static_cast<uint8_t>(mixed_word(seed, k) & 0x3F);
                 }));
}

void write_rare_flag(const at::Tensor& tensor, uint64_t seed) {
  write_number(tensor, mixed_word(seed, 0) % 8 == 0 ? 1 : 0);
}

void write_number(const at::Tensor& tensor, const c10::Scalar& number) {
  const bool known = with_type(tensor.scalar_type(), [&](auto kind) {
    using Element = decltype(kind);
    const Element element = number.isComplex()
                                ? from_double<Element>(number.toComplexDouble().real())
                            : number.isFloatingPoint() ? from_double<Element>(number.toDouble())
                                                       : static_cast<Element>(number.to<int64_t>());
    write_contents(tensor, fill_packed<Element>(tensor.numel(), [&](int64_t) { return element; }));
  });
  TORCH_CHECK(known, "value kernels: a number of dtype ", tensor.scalar_type());
}

Packed convert(Packed packed, c10::ScalarType from, c10::ScalarType to) {
  if (from == to) return packed;
  Packed result;
  const bool known = with_type(from, [&](auto before) {
    using Before = decltype(before);
    const int64_t count = packed.size() / sizeof(Before);
    const bool target_known = with_type(to, [&](auto after) {
      using After = decltype(after);
      result = fill_packed<After>(count, [&](int64_t k) {
        Before element;
        std::memcpy(&element, packed.data() + k * sizeof(Before), sizeof(Before));
        return from_double<After>(to_double(element));
      });
    });
    TORCH_CHECK(target_known, "value kernels: a copy to dtype ", to);
  });
  TORCH_CHECK(known, "value kernels: a copy from dtype ", from);
  return result;
}

}  // namespace tidepool::value_kernels
