#include "bindings/torch/intercept/operands/byte_ranges.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace tidepool::torch_glue {

namespace {

constexpr size_t kMostRanges = 256;

struct Dimension {
  size_t stride = 0, size = 0;  // stride: in bytes
};

// The ranges, repeated along these dimensions (of growing strides) over a storage of so many bytes;
// nothing if that leaves out some of it.
std::optional<remat::ByteRanges> repeated(std::vector<remat::ByteRange> ranges,
                                          std::span<const Dimension> dimensions, size_t bytes) {
  const size_t period = dimensions[0].stride;
  size_t reach = period;
  for (const Dimension& dimension : dimensions) {
    if (dimension.stride != reach) return std::nullopt;
    reach *= dimension.size;
  }
  const bool within = std::all_of(ranges.begin(), ranges.end(),
                                  [&](const auto& range) { return range.end <= period; });
  if (!within || reach < bytes) return std::nullopt;
  return remat::ByteRanges{std::move(ranges), period};
}

}  // namespace

std::optional<remat::ByteRanges> bytes_shown_by(const c10::TensorImpl& tensor) {
  if (tensor.numel() == 0) return remat::ByteRanges{};
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
  for (size_t d = 0; d < dimensions.size(); ++d) {
    const auto [stride, size] = dimensions[d];
    if (ranges.size() == 1 && stride == ranges[0].end - ranges[0].begin) {
      ranges[0].end = ranges[0].begin + stride * size;
      continue;
    }
    const size_t count = ranges.size();
    if (count * size > kMostRanges) {
      return repeated(std::move(ranges), std::span(dimensions).subspan(d),
                      tensor.unsafe_storage().nbytes());
    }
    for (size_t k = 1; k < size; ++k) {
      for (size_t n = 0; n < count; ++n) {
        const size_t shift = k * stride;
        ranges.push_back({ranges[n].begin + shift, ranges[n].end + shift});
      }
    }
  }
  return remat::ByteRanges{std::move(ranges)};
}

}  // namespace tidepool::torch_glue
