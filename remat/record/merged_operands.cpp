#include "remat/record/merged_operands.h"

#include <algorithm>

namespace tidepool::remat {
namespace {

constexpr size_t kFew = 16;  // that are searched one by one

// What both do together: a storage written is written, and whoever also reads it, or writes it in
// another way, updates it.
Access both(Access one, Access other) {
  if (one == other) return one;
  if (one == Access::kSideWrite || other == Access::kSideWrite) return Access::kSideWrite;
  return Access::kUpdate;
}

}  // namespace

void MergedOperands::merge(std::span<const Operand> operands) {
  merged_.clear();
  places_.clear();
  for (const Operand& operand : operands) {
    size_t place = merged_.size();
    if (operands.size() <= kFew) {
      const auto found = std::find_if(merged_.begin(), merged_.end(), [&](const Operand& each) {
        return each.storage == operand.storage;
      });
      place = static_cast<size_t>(found - merged_.begin());
    } else {
      place = places_.try_emplace(operand.storage, place).first->second;
    }
    if (place == merged_.size()) {
      merged_.push_back(operand);
    } else {
      merged_[place].access = both(merged_[place].access, operand.access);
    }
  }
  reads_.clear();
  writes_.clear();
  for (const Operand& operand : merged_) {
    if (operand.access == Access::kRead) {
      reads_.push_back(operand.storage);
    } else {
      writes_.push_back({static_cast<StorageIndex>(operand.storage), operand.access});
    }
  }
  const auto is_read = [](const Operand& operand) { return operand.access == Access::kRead; };
  const bool reads_last = std::is_sorted(
      operands.begin(), operands.end(),
      [&](const Operand& one, const Operand& other) { return is_read(one) < is_read(other); });
  arguments_.clear();
  if (reads_last && operands.size() == merged_.size()) return;
  for (const Operand& operand : operands) {
    arguments_.push_back({static_cast<StorageIndex>(operand.storage), operand.access});
  }
}

}  // namespace tidepool::remat
