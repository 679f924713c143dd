// List operators: operators that do the same to each element of their lists of tensors, one by one
// (PyTorch's `_foreach_` and fused optimizers' operators). Where there is a tier, one whose
// operands are too large to be resident together runs on parts of its lists, in order, in a job and
// in its simulation alike. The results are the same, because no element's depends on another's.
// Stateless.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tidepool::remat {

// The operands of a part take one part in kListShare of the budget at most.
inline constexpr size_t kListShare = 4;

enum class ListOperator : uint8_t { kNone, kForeach, kFused };

// Which of them an operator of this name is, such as "aten::_foreach_add".
inline ListOperator list_operator_named(std::string_view name) {
  for (const std::string_view prefix : {"aten::_foreach_", "aten::_amp_foreach_"}) {
    if (name.starts_with(prefix)) return ListOperator::kForeach;
  }
  for (const std::string_view prefix :
       {"aten::_fused_adam", "aten::_fused_sgd", "aten::_fused_adagrad"}) {
    if (name.starts_with(prefix)) return ListOperator::kFused;
  }
  return ListOperator::kNone;
}

// The ends of the parts, in elements: {2, 3, 7} for the parts 0 to 1, 2, and 3 to 6. Each part has
// as many elements as take at most `most_bytes`, but at least one. Empty: all fit in one.
inline std::vector<size_t> list_part_ends(std::span<const size_t> element_bytes,
                                          size_t most_bytes) {
  std::vector<size_t> ends;
  size_t sum = 0;
  for (size_t k = 0; k < element_bytes.size(); ++k) {
    if (sum > 0 && sum + element_bytes[k] > most_bytes) {
      ends.push_back(k);
      sum = 0;
    }
    sum += element_bytes[k];
  }
  if (!ends.empty()) ends.push_back(element_bytes.size());
  return ends;
}

}  // namespace tidepool::remat
