#include "remat/memory_uses.h"

#include <array>
#include <string_view>

#include "fmt/format.h"
#include "remat/operator_call.h"

namespace tidepool::remat {
namespace {

// The words for bytes that stay because they have no lineage, by RootReason.
constexpr std::array kWords = {
    "results of operators",
    "tensors that no operator was seen to fill",
    "results of operators that cannot be run again",
    "tensors written by operators on lists",
    "tensors written in part",
    "results computed from memory that others may change (NumPy, shared memory)",
    "sparse, nested or MKL-DNN tensors and what is computed from them",
    "results kept so that chains of operators to run again stay short",
    "results written in place too often to be made again",
    "results kept from earlier steps",
    "results beyond the number of operators that are remembered",
    "results beyond the memory for remembering operators",
    "results whose inputs were lost while they were computed",
    "results whose inputs were freed or overwritten since",
    "memory whose address was handed out (NumPy, DLPack, data_ptr)",
    "tensors that may have been written through a pointer",
    "results computed while nothing was recorded",
    "results that need not come out the same again",
    "results from before a switch or a kernel was changed",
    "copies of batches and arrays from outside",
    "results of torch.compile that cannot be made again",
};
static_assert(kWords.size() == static_cast<size_t>(RootReason::kCount));

// The operator's name as users know it: without PyTorch's namespace and the overload.
std::string short_name(std::string_view name) {
  if (name.starts_with("aten::")) name.remove_prefix(6);
  return std::string(name.substr(0, name.find('.')));
}

}  // namespace

MemoryUses::MemoryUses(Contents& contents, const Restorer& restorer)
    : contents_(contents), restorer_(restorer), thread_(Origin::number_of(Origin::this_thread())) {
  contents.store.for_each_storage([&](const Storage& storage) {
    if (storage.dead || storage.backend_notes == nullptr) return;
    if (const Storage* gradient = contents.backend.gradient_of(storage, contents.queue.threads())) {
      gradients_.insert(gradient);
    }
  });
  contents.queue.for_each_holder([&](const RestorationQueue::Holder& holder) {
    if (holder.call == nullptr) return;
    const bool is_mine = Origin::number_of(holder.thread) == thread_;
    for (const Operand& operand : holder.call->operands()) {
      const auto [found, is_new] = operands_.try_emplace(operand.storage, &holder);
      if (!is_new && is_mine) found->second = &holder;
    }
  });
  for (const Value* value : contents.residency.kept()) kept_.emplace(value->kept, value);
}

std::string MemoryUses::of(const HeldBlock& block) const {
  return block.owner != nullptr ? of_storage(*static_cast<const Storage*>(block.owner))
                                : of_unowned(block);
}

std::string MemoryUses::user(const RestorationQueue::Holder& holder) const {
  if (Origin::number_of(holder.thread) != thread_) return "operators on other threads";
  const std::string name = short_name(holder.call->name());
  return name.empty() ? "the running operator" : name;
}

std::string MemoryUses::of_storage(const Storage& storage) const {
  if (gradients_.contains(&storage)) return "gradients";
  switch (storage.role) {
    case Role::kParameter:
      return "parameters";
    case Role::kOptimizerState:
      return "optimizer state";
    case Role::kInput:
      return "inputs";
    case Role::kGradient:
      return "gradients";
    case Role::kOther:
    case Role::kCount:
      break;
  }
  const auto operand = operands_.find(&storage);
  if (operand != operands_.end()) return "operands of " + user(*operand->second);
  const Value* value = storage.current;
  if (value == nullptr || storage.dying) return "tensors that are being freed";
  if (value->producer == nullptr) return kWords[static_cast<size_t>(value->reason)];
  if (storage.fixed || storage.escaped) return kWords[static_cast<size_t>(RootReason::kEscaped)];
  if (storage.in_pieces) return kWords[static_cast<size_t>(RootReason::kPartialWrite)];
  if (value->locks > 0) return "tensors from which evicted ones are being computed";
  if (storage.locks > 0) return "tensors that are being restored or looked at";
  if (!contents_.residency.evictable(storage)) return "results kept while nothing may be evicted";
  return "results that can be computed again";
}

std::string MemoryUses::of_unowned(const HeldBlock& block) const {
  if (const auto kept = kept_.find(block.address); kept != kept_.end()) {
    return kept->second->producer != nullptr
               ? "intermediate results from which evicted tensors are being computed"
               : "contents of freed tensors from which evicted ones can be computed";
  }
  const Restorer::Running& replay = restorer_.running();
  if (replay.record != nullptr &&
      block.origin.is_of(Origin::number_of(contents_.queue.restorer()), replay.since)) {
    return fmt::format("temporaries of {}, which is run again",
                       short_name(replay.record->type->name));
  }
  const RestorationQueue::Holder* innermost = nullptr;
  contents_.queue.for_each_holder([&](const RestorationQueue::Holder& holder) {
    if (holder.call == nullptr) return;
    if (!block.origin.is_of(Origin::number_of(holder.thread), holder.since)) return;
    const bool is_inner =
        innermost == nullptr || static_cast<int32_t>(holder.since - innermost->since) >= 0;
    if (is_inner) innermost = &holder;
  });
  if (innermost != nullptr) return "temporaries of " + user(*innermost);
  return "memory that no operator has used (workspaces, new tensors)";
}

}  // namespace tidepool::remat
