#include "remat/steps/foreseen_storages.h"

#include <algorithm>

#include "allocator/base/check.h"

namespace tidepool::remat {

// A storage that the present step has not met is known by the number that it had in the last one,
// or in the last one of the form that is expected; know_by() makes these alike.
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
  if (looked_ != history_->expectation()) expect();
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
  for (Form& form : forms_) form.numbers.erase(&storage);
}

void ForeseenStorages::end_step() {
  form_ = history_->last_form();
  const bool changes = history_->matching() && history_->expected_form() != form_;
  if (changes || !forms_.empty()) keep_numbers();
  expect();
}

const ForeseenStorages::Form* ForeseenStorages::find_form(uint64_t form) const {
  const auto found = std::find_if(forms_.begin(), forms_.end(),
                                  [&](const Form& other) { return other.form == form; });
  return found != forms_.end() ? &*found : nullptr;
}

void ForeseenStorages::keep_numbers() {
  std::erase_if(forms_, [this](const Form& other) { return other.form == form_; });
  if (forms_.size() == StepHistory::kKinds) forms_.erase(forms_.begin());
  Form& form = forms_.emplace_back();
  form.form = form_;
  for (Storage* storage : known_) {
    const bool met = storage != nullptr && storage->step_seen + 1 == history_->step();
    if (met) form.numbers.emplace(storage, storage->step_number);
  }
}

void ForeseenStorages::expect() {
  looked_ = history_->expectation();
  expectation_ = looked_ - 1;
  if (!history_->matching()) return;
  const uint64_t expected = history_->expected_form();
  if (expected != form_) {
    const Form* const form = find_form(expected);
    if (form == nullptr) return;
    know_by(*form);
  }
  expectation_ = looked_;
  forget_coming_outputs();
}

void ForeseenStorages::know_by(const Form& form) {
  form_ = form.form;
  for (Storage*& known : known_) {
    if (known != nullptr && !is_met(*known)) known = nullptr;
  }
  for (const auto& [storage, number] : form.numbers) {
    if (number >= known_.size()) known_.resize(number + 1);
    if (is_met(*storage) || known_[number] != nullptr) continue;
    storage->step_seen = history_->step() - 1;
    storage->step_number = number;
    known_[number] = storage;
  }
}

// By these numbers the step will call what it makes itself.
void ForeseenStorages::forget_coming_outputs() {
  for (const StepHistory::Output& output : history_->expected_outputs()) {
    if (output.number >= known_.size()) continue;
    Storage*& known = known_[output.number];
    if (known != nullptr && !is_met(*known)) known = nullptr;
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

size_t ForeseenStorages::bookkeeping_bytes() const {
  size_t bytes = bytes_of(known_) + bytes_of(forms_);
  for (const Form& form : forms_) bytes += bytes_of(form.numbers);
  return bytes;
}

void ForeseenStorages::check_invariants() const {
  for (size_t number = 0; number < known_.size(); ++number) {
    const Storage* const storage = known_[number];
    TIDEPOOL_CHECK(storage == nullptr || (!storage->dead && storage->step_number == number),
                   "invariant 1: storage %zu is dead, or another one", number);
  }
  for (const Form& form : forms_) {
    for (const auto& [storage, number] : form.numbers) {
      TIDEPOOL_CHECK(!storage->dead, "invariant 2: storage %u is dead", number);
    }
  }
}

}  // namespace tidepool::remat
