#include "bindings/torch/intercept/operands/list_parts.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "bindings/torch/engine/engine.h"
#include "bindings/torch/storage/storage_access.h"
#include "remat/lineage/list_operators.h"

namespace tidepool::torch_glue {
namespace {

using torch::jit::Stack;

// The bytes of the storage, which have to be resident whatever part of them a tensor shows.
size_t storage_bytes(const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined()) return 0;
  const c10::StorageImpl* storage = storage_of(value.unsafeToTensorImpl());
  return storage != nullptr ? storage->nbytes() : 0;
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
  return remat::list_part_ends(bytes, cut_of(info.maps_lists, info.makes_lists ? first_bytes : 0));
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
