#include "bindings/torch/intercept/operands/list_parts.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "bindings/torch/engine/engine.h"
#include "bindings/torch/storage/storage_access.h"
#include "remat/lineage/list_operators.h"

namespace tidepool::torch_glue {
namespace {

using torch::jit::Stack;

// What of the elements with one index decides by which route a device's operator goes: it may
// treat all elements together, if they are alike, or one after the other, and then compute norms,
// for example, in another order (PyTorch's can_use_fast_route()).
struct Likeness {
  struct Each {
    c10::ScalarType type;
    c10::Device device;
    bool is_dense;
    bool operator==(const Each&) const = default;
  };
  std::vector<Each> lists;
  bool have_one_shape = true;
  bool operator==(const Likeness&) const = default;
};

// `lists`: those of the call that have elements.
Likeness likeness_of(std::span<const c10::ArrayRef<c10::IValue>> lists, size_t element) {
  Likeness found;
  const at::Tensor* first = nullptr;
  for (const auto list : lists) {
    if (!list[element].isTensor() || !list[element].toTensor().defined()) continue;
    const at::Tensor& tensor = list[element].toTensor();
    const bool is_strided = tensor.layout() == c10::kStrided;
    found.lists.push_back({tensor.scalar_type(), tensor.device(),
                           is_strided && tensor.is_non_overlapping_and_dense()});
    if (first == nullptr) first = &tensor;
    found.have_one_shape &=
        is_strided && first->sizes() == tensor.sizes() && first->strides() == tensor.strides();
  }
  return found;
}

// Whether parts of the arguments' lists go the way that the whole goes.
bool parts_go_alike(remat::ListOperator kind, c10::ArrayRef<c10::IValue> arguments) {
  std::vector<c10::ArrayRef<c10::IValue>> lists;
  for (const c10::IValue& value : arguments) {
    if (value.isList() && !value.toListRef().empty()) lists.push_back(value.toListRef());
  }
  const Likeness first = likeness_of(lists, 0);
  const auto on_cpu = [](const Likeness::Each& each) { return each.device.is_cpu(); };
  if (std::all_of(first.lists.begin(), first.lists.end(), on_cpu)) return true;  // has one route
  for (size_t k = 1; k < lists[0].size(); ++k) {
    Likeness other = likeness_of(lists, k);
    // Fused operators have one route, and numbers beside their tensors.
    if (kind == remat::ListOperator::kFused) other.have_one_shape = first.have_one_shape;
    if (other != first) return false;
  }
  return true;
}

// The bytes of the storage, which have to be resident whatever part of them a tensor shows; 0 where
// they are a symbol of something that is being traced.
size_t storage_bytes(const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined()) return 0;
  const c10::StorageImpl* storage = storage_of(value.unsafeToTensorImpl());
  if (storage == nullptr || storage->sym_nbytes().is_heap_allocated()) return 0;
  return storage->nbytes();
}

// The smallest parts that a device asks for.
remat::ListCut cut_of(remat::ListOperator kind, size_t result_bytes) {
  remat::ListCut least;
  for_each_engine([&](Engine& engine) {
    DeviceLock lock(engine.mutex());
    const remat::ListCut cut = engine.runtime().list_cut(kind, result_bytes);
    least.most_bytes = std::min(least.most_bytes, cut.most_bytes);
    least.alone_bytes = std::min(least.alone_bytes, cut.alone_bytes);
  });
  return least;
}

c10::IValue part_of(const c10::IValue& value, size_t begin, size_t end) {
  const c10::List<c10::IValue> whole = value.toList();
  c10::impl::GenericList part(whole.elementType());
  part.reserve(end - begin);
  for (size_t k = begin; k < end; ++k) part.push_back(whole.get(k));
  return part;
}

}  // namespace

std::vector<size_t> part_ends(const OperatorInfo& info, const Stack& stack) {
  std::vector<size_t> bytes;  // by element
  size_t first_bytes = 0;     // of the first list
  const auto arguments = torch::jit::last(stack, info.argument_count);
  for (const c10::IValue& value : arguments) {
    if (!value.isList()) continue;
    const auto elements = value.toListRef();
    if (elements.empty()) continue;
    if (bytes.empty()) bytes.resize(elements.size());
    if (elements.size() != bytes.size()) return {};
    for (size_t k = 0; k < bytes.size(); ++k) bytes[k] += storage_bytes(elements[k]);
    if (first_bytes == 0) first_bytes = std::accumulate(bytes.begin(), bytes.end(), size_t{0});
  }
  auto ends =
      remat::list_part_ends(bytes, cut_of(info.maps_lists, info.makes_lists ? first_bytes : 0));
  if (!ends.empty() && !parts_go_alike(info.maps_lists, arguments)) ends.clear();
  return ends;
}

void run_parts(const OperatorInfo& info, Stack* stack, const std::vector<size_t>& ends,
               const std::function<void(Stack*)>& run) {
  const Stack arguments(stack->end() - info.argument_count, stack->end());
  torch::jit::drop(*stack, info.argument_count);
  std::vector<c10::impl::GenericList> results;
  size_t begin = 0;
  for (const size_t end : ends) {
    Stack part;
    for (const c10::IValue& value : arguments) {
      const bool is_cut = value.isList() && !value.toListRef().empty();
      part.push_back(is_cut ? part_of(value, begin, end) : value);
    }
    run(&part);
    for (size_t k = 0; k < part.size(); ++k) {
      const c10::List<c10::IValue> more = part[k].toList();
      if (results.size() <= k) results.emplace_back(more.elementType());
      results[k].append(more);
    }
    begin = end;
  }
  for (c10::impl::GenericList& result : results) stack->emplace_back(std::move(result));
}

}  // namespace tidepool::torch_glue
