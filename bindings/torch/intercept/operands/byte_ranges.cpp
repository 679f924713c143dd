#include "bindings/torch/intercept/operands/byte_ranges.h"

#include <algorithm>
#include <cstdint>

#include "absl/container/inlined_vector.h"

namespace tidepool::torch_glue {

namespace {
constexpr size_t kMostRanges = 256;
}

std::vector<remat::ByteRange> bytes_shown_by(const c10::TensorImpl& tensor) {
  struct Dimension {
    size_t stride = 0, size = 0;  // stride: in bytes
  };
  if (tensor.numel() == 0) return {};
  const size_t itemsize = tensor.itemsize();
  absl::InlinedVector<Dimension, 6> dimensions;
  for (int64_t k = 0; k < tensor.dim(); ++k) {
    const int64_t size = tensor.sizes()[k], stride = tensor.strides()[k];
    if (size == 1 || stride == 0) continue;
    dimensions.push_back({static_cast<size_t>(stride) * itemsize, static_cast<size_t>(size)});
  }
  std::sort(dimensions.begin(), dimensions.end(),
            [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  const size_t offset = static_cast<size_t>(tensor.storage_offset()) * itemsize;
  std::vector<remat::ByteRange> ranges{{offset, offset + itemsize}};
  for (const Dimension& dimension : dimensions) {
    if (ranges.size() == 1 && dimension.stride == ranges[0].end - ranges[0].begin) {
      ranges[0].end = ranges[0].begin + dimension.stride * dimension.size;
      continue;
    }
    const size_t count = ranges.size();
    if (count * dimension.size > kMostRanges) return {};
    for (size_t k = 1; k < dimension.size; ++k) {
      for (size_t n = 0; n < count; ++n) {
        const size_t shift = k * dimension.stride;
        ranges.push_back({ranges[n].begin + shift, ranges[n].end + shift});
      }
    }
  }
  return ranges;
}

}  // namespace tidepool::torch_glue
