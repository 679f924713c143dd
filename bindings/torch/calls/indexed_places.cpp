#include "bindings/torch/calls/indexed_places.h"

#include <c10/core/ScalarType.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tidepool::torch_glue {
namespace {

// How many places are looked at: a place is one bit, an index a whole row that is written.
constexpr int64_t kMostPlaces = 1 << 20;
constexpr int64_t kMostPlacesPerIndex = 64;

// One tensor of indices, and how far apart in all places its dimension's entries are.
struct Index {
  const int64_t* data;
  int64_t size;    // of the dimension
  int64_t stride;  // in places
};

bool is_present(const c10::TensorImpl* index) { return index != nullptr && index->has_storage(); }

const int64_t* data_of(const c10::TensorImpl& index) {
  const void* bytes =
      index.unsafe_storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get();
  return static_cast<const int64_t*>(bytes) + index.storage_offset();
}

}  // namespace

bool are_places_distinct(const c10::TensorImpl& written,
                         c10::ArrayRef<const c10::TensorImpl*> indices) {
  // The places of an expanded tensor may be the same memory.
  if (!written.is_non_overlapping_and_dense()) return false;
  const auto present = std::count_if(indices.begin(), indices.end(), is_present);
  const c10::TensorImpl* first = nullptr;
  std::vector<Index> found;
  int64_t places = 1;
  for (size_t dimension = 0; dimension < indices.size(); ++dimension) {
    const c10::TensorImpl* const index = indices[dimension];
    if (!is_present(index)) continue;
    // A mask names each of its places once.
    if (present == 1 && index->dtype() == caffe2::TypeMeta::Make<bool>()) return true;
    if (index->dtype() != caffe2::TypeMeta::Make<int64_t>() || !index->is_contiguous())
      return false;
    if (first == nullptr) first = index;
    if (index->sizes() != first->sizes()) return false;
    const int64_t size = written.size(static_cast<int64_t>(dimension));
    found.push_back({data_of(*index), size, places});
    if (__builtin_mul_overflow(places, size, &places)) return false;
  }
  if (first == nullptr) return true;
  const int64_t count = first->numel();
  if (places < count) return false;
  if (places > std::max(kMostPlaces, kMostPlacesPerIndex * count)) return count < 2;
  std::vector<bool> met(static_cast<size_t>(places));
  for (int64_t k = 0; k < count; ++k) {
    int64_t place = 0;
    for (const Index& index : found) {
      const int64_t entry = index.data[k] < 0 ? index.data[k] + index.size : index.data[k];
      if (entry < 0 || entry >= index.size) return false;
      place += entry * index.stride;
    }
    if (met[static_cast<size_t>(place)]) return false;
    met[static_cast<size_t>(place)] = true;
  }
  return true;
}

bool are_planes_distinct(const c10::TensorImpl& indices, int64_t dimensions) {
  const bool is_plain =
      indices.dtype() == caffe2::TypeMeta::Make<int64_t>() && indices.is_contiguous();
  if (!is_plain || indices.dim() < dimensions) return false;
  if (indices.numel() == 0) return true;
  int64_t plane = 1;
  for (int64_t k = 1; k <= dimensions; ++k) plane *= indices.size(indices.dim() - k);
  const int64_t* const data = data_of(indices);
  std::vector<bool> met;
  for (int64_t k = 0; k < indices.numel(); ++k) {
    if (k % plane == 0) met.assign(met.size(), false);
    if (data[k] < 0 || data[k] >= std::max(kMostPlaces, kMostPlacesPerIndex * plane)) return false;
    const auto place = static_cast<size_t>(data[k]);
    if (place >= met.size()) met.resize(place + 1);
    if (met[place]) return false;
    met[place] = true;
  }
  return true;
}

}  // namespace tidepool::torch_glue
