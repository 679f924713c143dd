#include "remat/steps/foreseen_storages.h"

#include <algorithm>

#include "allocator/base/check.h"

namespace tidepool::remat {

// A storage that the present step has not met is known by the number that it had in the last one.
bool ForeseenStorages::is_known(const Storage& storage) const {
  if (is_met(storage)) return true;
  const uint32_t number = storage.step_number;
  return storage.step_seen + 1 == history_->step() && expectation_ == history_->expectation() &&
         number < known_.size() && known_[number] == &storage;
}

void ForeseenStorages::before_meeting(std::span<Storage* const> storages) {
  for (Storage* storage : storages) {
    if (storage == nullptr || is_met(*storage) || storage->step_number >= known_.size()) continue;
    Storage*& known = known_[storage->step_number];
    if (known == storage) known = nullptr;  // it will have another number
  }
}

void ForeseenStorages::after_meeting(std::span<Storage* const> storages) {
  for (Storage* storage : storages) {
    if (storage == nullptr || storage->dead || !is_met(*storage)) continue;
    const uint32_t number = storage->step_number;
    if (number >= known_.size()) known_.resize(number + 1);
    known_[number] = storage;
  }
}

void ForeseenStorages::forget(Storage& storage) {
  if (storage.step_number < known_.size() && known_[storage.step_number] == &storage) {
    known_[storage.step_number] = nullptr;
  }
}

void ForeseenStorages::end_step() {
  const bool alike =
      history_->matching() && history_->last_fingerprint() == history_->expected_fingerprint();
  expectation_ = alike ? history_->expectation() : history_->expectation() - 1;
  if (!alike) return;
  // By these numbers the next step will call what it makes itself.
  for (const StepHistory::Output& output : history_->expected_outputs()) {
    if (output.number < known_.size()) known_[output.number] = nullptr;
  }
}

StepHistory::Position ForeseenStorages::next_use(const Storage& storage) const {
  if (!history_->matching() || !is_known(storage)) return StepHistory::kUnknown;
  if (storage.step_number >= history_->expected_storages()) return StepHistory::kUnknown;
  const auto uses = history_->uses(storage.step_number);
  const auto next = std::lower_bound(uses.begin(), uses.end(), history_->position());
  return next != uses.end() ? *next : StepHistory::kNever;
}

uint64_t ForeseenStorages::time_until_use_ns(const Storage& storage) const {
  if (!enabled()) return 0;
  StepHistory::Position next = next_use(storage);
  if (next == StepHistory::kUnknown) return 0;
  if (next == StepHistory::kNever) {
    const auto uses = history_->uses(storage.step_number);
    if (uses.empty() || !history_->expects_repetition()) return history_->time_until_ns(next);
    next = history_->expected_calls() + uses.front();
  }
  return std::max<uint64_t>(history_->time_until_ns(next), 1);
}

void ForeseenStorages::check_invariants() const {
  for (size_t number = 0; number < known_.size(); ++number) {
    const Storage* const storage = known_[number];
    TIDEPOOL_CHECK(storage == nullptr || (!storage->dead && storage->step_number == number),
                   "storage %zu is dead, or another one", number);
  }
}

}  // namespace tidepool::remat
