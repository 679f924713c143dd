#include "bindings/torch/intercept/operands/foreign_operands.h"

#include <algorithm>
#include <utility>

namespace tidepool::torch_glue {
namespace {

// A call with more foreign operands puts samples together into a batch, which takes no more bytes
// than they do, so that copies would not pay.
constexpr size_t kMostOperands = 16;

}  // namespace

bool ForeignOperands::see(size_t place, const c10::TensorImpl& tensor) {
  if (operands_.size() == kMostOperands) return false;
  const auto region = ForeignCopies::region_of(tensor);
  if (!region) return false;
  const auto offset = static_cast<int64_t>(region->lead_bytes() / tensor.itemsize());
  operands_.push_back({.place = place, .region = *region, .offset = offset});
  return true;
}

size_t ForeignOperands::bytes() const {
  size_t bytes = 0;
  for (const Operand& operand : operands_) bytes += operand.region.bytes;
  return bytes;
}

const ForeignOperands::Operand* ForeignOperands::find(size_t place) const {
  const auto found = std::lower_bound(
      operands_.begin(), operands_.end(), place,
      [](const Operand& operand, size_t wanted) { return operand.place < wanted; });
  return found != operands_.end() && found->place == place ? &*found : nullptr;
}

bool ForeignOperands::obtain(ForeignCopies& copies) {
  for (Operand& operand : operands_) {
    auto copy = copies.obtain(operand.region);
    if (!copy) return false;
    operand.copy = copy->storage.get();
    operand.held = std::move(copy->storage);
    operand.fresh = copy->fresh;
  }
  return true;
}

void ForeignOperands::unlock() {
  for (Operand& operand : operands_) operand.held.end();
}

bool ForeignOperands::verify(ForeignCopies& copies, uint64_t timing_key, size_t result_bytes) {
  if (result_bytes <= bytes()) {
    copies.note_unpaid(timing_key);
    for (const Operand& operand : operands_) {
      if (operand.fresh) copies.drop(*operand.copy);
    }
    return false;
  }
  bool unchanged = true;
  for (const Operand& operand : operands_) {
    if (copies.still_equal(operand.region, *operand.copy)) continue;
    copies.note_change(*operand.copy);
    unchanged = false;
  }
  return unchanged;
}

}  // namespace tidepool::torch_glue
