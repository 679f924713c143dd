#include "bindings/torch/intercept/operands/call_arguments.h"

#include <algorithm>
#include <utility>

#include "bindings/torch/calls/call_body.h"
#include "bindings/torch/calls/indexed_places.h"
#include "bindings/torch/intercept/operands/tensor_components.h"
#include "bindings/torch/storage/storage_access.h"

namespace tidepool::torch_glue {

bool is_supported(const c10::TensorImpl* tensor) {
  return (tensor->key_set().raw_repr() & ~supported_keys()) == 0 &&
         !tensor->has_symbolic_sizes_strides();
}

size_t shown_bytes(const c10::TensorImpl* tensor) {
  if (tensor == nullptr || !is_supported(tensor)) return 0;
  return static_cast<size_t>(tensor->numel()) * tensor->itemsize();
}

bool CallArguments::Argument::covers_storage() const {
  if (tensor->storage_offset() != 0 || !tensor->is_non_overlapping_and_dense()) return false;
  const size_t bytes = static_cast<size_t>(tensor->numel()) * tensor->itemsize();
  return bytes == storage_of(tensor)->nbytes();
}

bool CallArguments::Argument::may_overlap_itself() const {
  if (tensor->is_non_overlapping_and_dense()) return false;
  absl::InlinedVector<std::pair<int64_t, int64_t>, 6> dimensions;  // strides and sizes
  for (int64_t k = 0; k < tensor->dim(); ++k) {
    if (tensor->size(k) > 1) dimensions.emplace_back(tensor->stride(k), tensor->size(k));
  }
  std::sort(dimensions.begin(), dimensions.end());
  int64_t extent = 1;  // of the dimensions so far, in elements
  for (const auto& [stride, size] : dimensions) {
    if (stride < extent) return true;
    extent += stride * (size - 1);
  }
  return false;
}

remat::Access CallArguments::Argument::access_by(const OperatorInfo& info) const {
  if (side_written) return remat::Access::kSideWrite;
  if (!written) return remat::Access::kRead;
  const bool covers = info.overwrites && !shared && covers_storage();
  return covers ? remat::Access::kOverwrite : remat::Access::kUpdate;
}

TensorSlot::Kind CallArguments::Argument::slot_kind(bool begins_pieces) const {
  using Kind = TensorSlot::Kind;
  if (home == Home::kEmpty) return Kind::kEmpty;
  if (home == Home::kImmediate) return Kind::kImmediate;
  if (home != Home::kStorage) return Kind::kAbsent;
  if (access == remat::Access::kOverwrite) return Kind::kBlank;
  if (access == remat::Access::kUpdate && begins_pieces) return Kind::kBlank;
  return access == remat::Access::kSideWrite ? Kind::kStandIn : Kind::kEdge;
}

void CallArguments::add(c10::TensorImpl* tensor, bool writes, bool side_writes) {
  ++slots_;
  if (tensor == nullptr || tensor == c10::UndefinedTensorImpl::singleton()) {
    all_.push_back({nullptr});
    return;
  }
  Argument argument{tensor};
  argument.written = writes;
  argument.side_written = side_writes;
  argument.supported = is_supported(tensor);
  if (argument.supported) dimensions_ += static_cast<size_t>(tensor->dim());
  all_.push_back(argument);
}

void CallArguments::add_storage(const c10::Storage& storage) {
  components_.push_back(c10::make_intrusive<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
      caffe2::TypeMeta::Make<uint8_t>()));
  all_.push_back({components_.back().get()});
}

void CallArguments::add_components(c10::TensorImpl* tensor, bool written) {
  for (const at::Tensor& component : components_of(tensor)) {
    components_.push_back(component.getIntrusivePtr());
    Argument argument{component.unsafeGetTensorImpl()};
    argument.written = written;
    argument.supported = false;
    argument.of_sparse = is_sparse(*tensor);
    all_.push_back(argument);
  }
}

bool CallArguments::writes_results_only() const {
  return std::all_of(all_.begin(), all_.end(), [](const Argument& argument) {
    if (argument.tensor == nullptr || !argument.written) return !argument.side_written;
    const c10::Storage& storage = argument.tensor->unsafe_storage();
    return argument.home == Home::kEmpty && argument.tensor->numel() == 0 &&
           storage.nbytes() == 0 && storage.use_count() == 1;
  });
}

void CallArguments::find_shared() {
  absl::InlinedVector<std::pair<remat::Storage*, size_t>, 8> places;
  for (size_t k = 0; k < all_.size(); ++k) {
    if (all_[k].storage != nullptr) places.emplace_back(all_[k].storage, k);
  }
  std::sort(places.begin(), places.end());  // lists have any number of arguments
  for (size_t k = 1; k < places.size(); ++k) {
    if (places[k].first != places[k - 1].first) continue;
    all_[places[k].second].shared = all_[places[k - 1].second].shared = true;
  }
}

bool CallArguments::cover_what_they_overwrite() const {
  return std::all_of(all_.begin(), all_.end(), [](const Argument& argument) {
    return argument.access != remat::Access::kOverwrite || argument.covers_storage();
  });
}

bool CallArguments::all_are(remat::Role role) const {
  return std::all_of(all_.begin(), all_.end(), [role](const Argument& argument) {
    return argument.storage == nullptr || argument.storage->role == role;
  });
}

bool CallArguments::name_places_once(const OperatorInfo& info) const {
  if (info.varies == Variation::kPlanes) {
    return are_planes_distinct(*all_[1].tensor,
                               info.qualified_name == "aten::max_unpool3d" ? 3 : 2);
  }
  // The written tensor, its indices, and the values.
  absl::InlinedVector<const c10::TensorImpl*, 4> indices;
  for (size_t k = 1; k + 1 < slots_; ++k) {
    // What the operator has written are other indices now.
    if (all_[k].storage != nullptr && all_[k].storage == all_[0].storage) return false;
    indices.push_back(all_[k].tensor);
  }
  return are_places_distinct(*all_[0].tensor, {indices.data(), indices.size()});
}

uint64_t CallArguments::timing_key(const OperatorInfo& info) const {
  uint64_t hash = reinterpret_cast<uintptr_t>(&info);
  const auto add = [&](uint64_t word) { hash = (hash ^ word) * 0x9E3779B97F4A7C15u; };
  for (const Argument& argument : all_) {
    if (argument.tensor == nullptr || !argument.supported) continue;
    add(static_cast<uint64_t>(c10::typeMetaToScalarType(argument.tensor->dtype())));
    for (int64_t size : argument.tensor->sizes()) add(static_cast<uint64_t>(size));
    for (int64_t stride : argument.tensor->strides()) add(static_cast<uint64_t>(stride));
  }
  return hash ^ hash >> 32;
}

size_t CallArguments::written_bytes() const {
  size_t bytes = 0;
  for (const Argument& argument : all_) {
    if (argument.written) bytes += shown_bytes(argument.tensor);
  }
  return bytes;
}

size_t CallArguments::bytes() const {
  size_t bytes = 0;
  for (const Argument& argument : all_) bytes += shown_bytes(argument.tensor);
  return bytes;
}

}  // namespace tidepool::torch_glue
