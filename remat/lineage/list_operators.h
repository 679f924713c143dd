// List operators: operators that do the same to each element of their lists of tensors, one by one
// (PyTorch's `_foreach_` and fused optimizers' operators). Where memory is short, one runs on parts
// of its lists, in order, in a job and in its simulation alike (but a job on a device leaves lists
// whole whose elements are not alike). The results are the same, because no element's depends on
// another's. Where contents without lineage can be offloaded, parts are as large as may be: what
// they have written leaves by a copy. Elsewhere each element is a part: a call that writes one
// tensor is recorded, one that writes several is not, and what it has written would stay.
// Stateless.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tidepool::remat {

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

inline bool is_list_operator(std::string_view name) {
  return list_operator_named(name) != ListOperator::kNone;
}

// ListCut: how operators on lists are cut into parts.
struct ListCut {
  size_t most_bytes = SIZE_MAX;   // that the operands of a part of several elements take
  size_t alone_bytes = SIZE_MAX;  // an element whose operands take this is a part of its own
};

// The cut of an operator in a job under this budget. `live_bytes`: what the job's tensors take,
// resident or evicted, and the operator's results. Where contents without lineage stay, nothing is
// cut while all that lives has room, as after a backward pass, nor what writes several lists. Less
// than the whole budget is room: some lies between blocks and in pages that are partly used.
// Elements so small that thousands have room stay together, because a call costs more than they.
inline ListCut list_cut(ListOperator kind, size_t budget_bytes, size_t live_bytes,
                        bool offloads_roots) {
  constexpr size_t kOffloadedShare = 4;
  constexpr size_t kShare = 16;
  constexpr size_t kAloneShare = 4096;
  if (offloads_roots) return {budget_bytes / kOffloadedShare, SIZE_MAX};
  const size_t room_bytes = budget_bytes - budget_bytes / kShare;
  if (live_bytes <= room_bytes || kind == ListOperator::kFused) return {};
  return {budget_bytes / kShare, budget_bytes / kAloneShare};
}

// Whether the results of the operator on lists of this name are as large as its first list; else
// they are numbers.
inline bool maps_to_list(std::string_view name) {
  return name != "aten::_foreach_norm" && name != "aten::_foreach_max" &&
         name != "aten::_foreach_powsum";
}

// The ends of the parts, in elements: {2, 3, 7} for the parts 0 to 1, 2, and 3 to 6. Each has at
// least one element. Empty: all are one part, because their operands take at most
// `cut.most_bytes`.
inline std::vector<size_t> list_part_ends(std::span<const size_t> element_bytes,
                                          const ListCut& cut) {
  std::vector<size_t> ends;
  size_t all = 0;
  for (const size_t bytes : element_bytes) all += bytes;
  if (all <= cut.most_bytes) return ends;
  size_t sum = 0;  // of the part that is being filled
  for (size_t k = 0; k < element_bytes.size(); ++k) {
    const bool is_alone = element_bytes[k] >= cut.alone_bytes || sum >= cut.alone_bytes;
    if (k > 0 && (is_alone || sum + element_bytes[k] > cut.most_bytes)) {
      ends.push_back(k);
      sum = 0;
    }
    sum += element_bytes[k];
  }
  if (!ends.empty()) ends.push_back(element_bytes.size());
  return ends;
}

}  // namespace tidepool::remat
