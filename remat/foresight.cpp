#include "remat/foresight.h"

#include <algorithm>
#include <utility>

#include "allocator/check.h"

namespace tidepool::remat {

void Foresight::List::clear() {
  entries.clear();
  operands.clear();
  outputs.clear();
  numbers = 0;
  start_ns = length_ns = fingerprint = 0;
  complete = true;
}

uint32_t Foresight::number_of(Storage& storage) {
  if (storage.step_seen != step_) {
    storage.step_seen = step_;
    storage.step_number = present_.numbers++;
  }
  return storage.step_number;
}

Foresight::Call Foresight::begin(uint64_t site, std::span<Storage* const> operands,
                                 uint64_t now_ns) {
  if (present_.entries.empty()) present_.start_ns = now_ns;
  const Call call{step_, static_cast<Position>(present_.entries.size())};
  if (present_.operands.size() + operands.size() + present_.outputs.size() +
          present_.entries.size() > kMostOperands) {
    present_.complete = matching_ = false;
  }
  if (!present_.complete) return call;
  Entry entry{site, now_ns - present_.start_ns, static_cast<uint32_t>(present_.operands.size()),
              static_cast<uint32_t>(operands.size())};
  present_.mix(site);
  for (Storage* storage : operands) {
    present_.operands.push_back(number_of(*storage));
    present_.mix(present_.operands.back());
  }
  present_.entries.push_back(entry);
  if (matching_) matching_ = begins_alike();
  return call;
}

// Whether the entry that came last is that of the last step.
bool Foresight::begins_alike() const {
  const size_t at = present_.entries.size() - 1;
  if (at >= last_.entries.size()) return false;
  const Entry& entry = present_.entries[at];
  const Entry& before = last_.entries[at];
  return entry.site == before.site && entry.first_operand == before.first_operand &&
         entry.operands == before.operands &&
         std::equal(present_.operands.begin() + entry.first_operand, present_.operands.end(),
                    last_.operands.begin() + entry.first_operand);
}

void Foresight::finish(const Call& call, std::span<Storage* const> outputs) {
  if (call.step != step_ || !present_.complete) return;
  for (Storage* storage : outputs) {
    if (storage == nullptr) continue;
    const Output output{call.position, number_of(*storage), storage->current->bytes};
    const size_t at = present_.outputs.size();
    present_.outputs.push_back(output);
    present_.mix(uint64_t{output.position} << 32 | output.number);
    present_.mix(output.bytes);
    matching_ = matching_ && at < last_.outputs.size() && last_.outputs[at] == output;
  }
}

void Foresight::end_step(uint64_t now_ns) {
  if (present_.entries.empty()) return;  // two marks in a row
  const bool same = matching_ && present_.entries.size() == last_.entries.size() &&
                    present_.outputs.size() == last_.outputs.size();
  steps_matched_ += same;
  if (!same) same_since_ = step_;
  present_.length_ns = now_ns - present_.start_ns;
  std::swap(last_, present_);
  present_.clear();
  ++step_;
  matching_ = last_.complete;
  if (matching_) index_uses();
}

void Foresight::index_uses() {
  first_use_.assign(last_.numbers + 1, 0);
  for (const uint32_t number : last_.operands) ++first_use_[number + 1];
  for (size_t n = 1; n < first_use_.size(); ++n) first_use_[n] += first_use_[n - 1];
  cursor_.assign(first_use_.begin(), first_use_.end() - 1);
  uses_.resize(last_.operands.size());
  for (size_t at = 0; at < last_.entries.size(); ++at) {
    const Entry& entry = last_.entries[at];
    for (size_t k = 0; k < entry.operands; ++k) {
      uses_[cursor_[last_.operands[entry.first_operand + k]]++] = static_cast<Position>(at);
    }
  }
  cursor_.assign(first_use_.begin(), first_use_.end() - 1);
}

Foresight::Position Foresight::next_use(const Storage& storage) {
  if (!matching_ || storage.step_seen != step_) return kUnknown;
  const uint32_t number = storage.step_number;
  uint32_t& at = cursor_[number];
  while (at < first_use_[number + 1] && uses_[at] < present_.entries.size()) ++at;
  return at < first_use_[number + 1] ? uses_[at] : kNever;
}

uint64_t Foresight::time_until_ns(Position position) const {
  const size_t now = present_.entries.size();
  TIDEPOOL_CHECK(matching_ && position != kUnknown, "position %u at %zu", position, now);
  if (position < now) return 0;
  const uint64_t start_ns =
      now < last_.entries.size() ? last_.entries[now].start_ns : last_.length_ns;
  const uint64_t end_ns =
      position == kNever ? 2 * last_.length_ns : last_.entries[position].start_ns;
  return end_ns - start_ns;
}

void Foresight::check_invariants() const {
  if (!matching_) return;
  const size_t entries = present_.entries.size();
  TIDEPOOL_CHECK(entries <= last_.entries.size() && present_.complete && last_.complete,
                 "invariant 1: %zu calls, after %zu", entries, last_.entries.size());
  for (size_t k = 0; k < entries; ++k) {
    TIDEPOOL_CHECK(present_.entries[k].site == last_.entries[k].site, "invariant 1: call %zu", k);
  }
  TIDEPOOL_CHECK(std::equal(present_.operands.begin(), present_.operands.end(),
                            last_.operands.begin()),
                 "invariant 1: operands of %zu calls", entries);
  TIDEPOOL_CHECK(present_.outputs.size() <= last_.outputs.size() &&
                     std::equal(present_.outputs.begin(), present_.outputs.end(),
                                last_.outputs.begin()),
                 "invariant 1: outputs of %zu calls", entries);
}

}  // namespace tidepool::remat
