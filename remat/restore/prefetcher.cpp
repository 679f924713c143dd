#include "remat/restore/prefetcher.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "allocator/base/check.h"
#include "remat/restore/storage_locks.h"

namespace tidepool::remat {

Prefetcher::Prefetcher(Contents& contents, Restorer& restorer, const StepHistory* history)
    : contents_(contents), restorer_(restorer), history_(history) {
  const Tier* const tier = contents.residency.copies.tier();
  enabled_ = history != nullptr && tier != nullptr && tier->runs_beside();
}

// A storage that the present step has not met is known by the number that it had in the last one.
bool Prefetcher::is_known(const Storage& storage, uint32_t number) const {
  if (storage.step_number != number) return false;
  if (storage.step_seen == history_->step()) return true;
  return storage.step_seen + 1 == history_->step() && expectation_ == history_->expectation();
}

void Prefetcher::before_meeting(std::span<Storage* const> storages) {
  for (Storage* storage : storages) {
    if (storage == nullptr) continue;
    if (storage->prefetched) end_prefetch(*storage, !storage->evicted);
    if (storage->step_seen == history_->step() || storage->step_number >= known_.size()) continue;
    Storage*& known = known_[storage->step_number];
    if (known == storage) known = nullptr;  // it will have another number
  }
}

void Prefetcher::after_meeting(std::span<Storage* const> storages) {
  for (Storage* storage : storages) {
    if (storage == nullptr || storage->dead || storage->step_seen != history_->step()) continue;
    const uint32_t number = storage->step_number;
    if (number >= known_.size()) known_.resize(number + 1);
    known_[number] = storage;
  }
}

void Prefetcher::forget(Storage& storage) {
  if (storage.prefetched) end_prefetch(storage, false);
  if (storage.step_number < known_.size() && known_[storage.step_number] == &storage) {
    known_[storage.step_number] = nullptr;
  }
  for (Load& load : due_) {
    if (load.storage == &storage) load.storage = nullptr;
  }
}

void Prefetcher::end_prefetch(Storage& storage, bool used) {
  storage.prefetched = false;
  statistics.hits += used;
  if (!used) statistics.wasted_bytes += storage.current->bytes;
}

void Prefetcher::end_step() {
  link_free_ns_ = 0;
  const bool alike =
      history_->matching() && history_->last_fingerprint() == history_->expected_fingerprint();
  expectation_ = alike ? history_->expectation() : history_->expectation() - 1;
  if (!alike) return;
  // By these numbers the next step will call what it makes itself.
  for (const StepHistory::Output& output : history_->expected_outputs()) {
    if (output.number < known_.size()) known_[output.number] = nullptr;
  }
}

bool Prefetcher::is_missing(const Storage& storage) const {
  if (storage.dead || !storage.evicted || storage.dying || storage.locks > 0) return false;
  return storage.current->copied && !storage.current->available();
}

// Finds the loads that have to begin now so that all that come up to some call are over by then.
void Prefetcher::find_due() {
  due_.clear();
  const Tier& tier = *contents_.residency.copies.tier();
  const uint64_t now_ns = contents_.residency.now();
  uint64_t work_ns = link_free_ns_ > now_ns ? link_free_ns_ - now_ns : 0;
  size_t due = 0, looked = 0, outputs_bytes = 0;
  const StepHistory::Position now = history_->position();
  const auto outputs = history_->expected_outputs();
  // Those of the call that has begun last are not made yet.
  auto output = std::lower_bound(
      outputs.begin(), outputs.end(), now > 0 ? now - 1 : 0,
      [](const StepHistory::Output& a, uint32_t position) { return a.position < position; });
  for (auto at = now; at < history_->expected_calls() && looked < kMostOperands; ++at) {
    for (; output != outputs.end() && output->position < at; ++output) {
      outputs_bytes += output->bytes;
    }
    for (const uint32_t number : history_->expected_operands(at)) {
      ++looked;
      Storage* const storage = number < known_.size() ? known_[number] : nullptr;
      if (storage == nullptr || !is_known(*storage, number) || !is_missing(*storage)) continue;
      const auto is_same = [&](const Load& load) { return load.storage == storage; };
      if (std::any_of(due_.begin(), due_.end(), is_same)) continue;
      if (due_.size() == kMostLoads) break;
      due_.push_back({storage, outputs_bytes});
      work_ns += tier.load_ns(storage->current->bytes);
      const auto needed_ns = static_cast<uint64_t>(kSlack * static_cast<double>(work_ns));
      if (history_->time_until_ns(at) <= needed_ns) due = due_.size();
    }
  }
  due_.resize(due);
}

void Prefetcher::advance(DeviceLock& lock) {
  if (busy_ || !history_->matching()) return;
  if (contents_.residency.copies.empty()) return;
  find_due();
  busy_ = true;
  const absl::Cleanup done = [this] {
    due_.clear();
    busy_ = false;
  };
  const uint32_t expectation = history_->expectation();
  for (size_t k = 0; k < due_.size() && history_->expectation() == expectation; ++k) {
    if (due_[k].storage == nullptr || !is_missing(*due_[k].storage)) continue;
    if (!fetch(due_[k], lock)) break;
  }
}

bool Prefetcher::fetch(const Load& load, DeviceLock& lock) {
  Storage& storage = *load.storage;
  const size_t bytes = storage.current->bytes;
  const size_t taken = contents_.allocator.allocated_bytes();
  if (taken + bytes + load.outputs_bytes > contents_.allocator.limit_bytes()) return false;
  StorageLocks locked(contents_);
  locked.add(storage);
  if (storage.prefetched) end_prefetch(storage, false);  // it was evicted since
  const uint64_t now_ns = contents_.residency.now();
  if (!restorer_.prefetch(storage, lock)) return false;
  storage.last_access = contents_.residency.now();
  storage.prefetched = !storage.dead;
  ++statistics.prefetches;
  statistics.prefetched_bytes += bytes;
  const uint64_t load_ns = contents_.residency.copies.tier()->load_ns(bytes);
  link_free_ns_ = std::max(link_free_ns_, now_ns) + load_ns;
  return true;
}

void Prefetcher::check_invariants() const {
  for (size_t number = 0; number < known_.size(); ++number) {
    const Storage* const storage = known_[number];
    TIDEPOOL_CHECK(storage == nullptr || (!storage->dead && storage->step_number == number),
                   "storage %zu is dead, or another one", number);
  }
}

}  // namespace tidepool::remat
