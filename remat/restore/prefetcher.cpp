#include "remat/restore/prefetcher.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "remat/restore/storage_locks.h"
#include "remat/restore/write_behind.h"

namespace tidepool::remat {

Prefetcher::Prefetcher(Contents& contents, Restorer& restorer, const StepHistory* history)
    : contents_(contents),
      restorer_(restorer),
      history_(history),
      storages_(contents.foreseen),
      write_behind_(std::make_unique<WriteBehind>(contents, storages_, history)) {
  const Tier* const tier = contents.residency.copies.tier();
  enabled_ = history != nullptr && tier != nullptr && tier->runs_beside();
}

Prefetcher::~Prefetcher() = default;

void Prefetcher::left(const Storage& storage, bool ahead) { write_behind_->left(storage, ahead); }

void Prefetcher::learn(const Prefetcher& other) { write_behind_->learn(*other.write_behind_); }

size_t Prefetcher::bookkeeping_bytes() const {
  return write_behind_->bookkeeping_bytes() + bytes_of(due_);
}

void Prefetcher::before_meeting(std::span<Storage* const> storages) {
  for (Storage* storage : storages) {
    if (storage != nullptr && storage->prefetched) end_prefetch(*storage, !storage->evicted);
  }
  storages_.before_meeting(storages);
}

void Prefetcher::forget(Storage& storage) {
  if (storage.prefetched) end_prefetch(storage, false);
  storages_.forget(storage);
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
  contents_.residency.end_step(history_->last_form(), history_->expected_form());
  storages_.end_step();
  write_behind_->end_step();
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
      Storage* const storage = storages_.find(number);
      if (storage == nullptr || !is_missing(*storage)) continue;
      const auto is_same = [&](const Load& load) { return load.storage == storage; };
      if (std::any_of(due_.begin(), due_.end(), is_same)) continue;
      if (due_.size() == kMostLoads) break;
      due_.push_back({storage, at, outputs_bytes});
      work_ns += tier.load_ns(storage->current->bytes);
      const auto needed_ns = static_cast<uint64_t>(kSlack * static_cast<double>(work_ns));
      if (history_->time_until_ns(at) <= needed_ns) due = due_.size();
    }
  }
  due_.resize(due);
}

void Prefetcher::advance(DeviceLock& lock) {
  if (busy_ || !history_->matching()) return;
  write_behind_->advance();
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
  const size_t wanted = contents_.allocator.allocated_bytes() + bytes + load.outputs_bytes;
  const size_t limit = contents_.allocator.limit_bytes();
  StorageLocks locked(contents_);
  locked.add(storage);
  if (storage.prefetched) end_prefetch(storage, false);  // it was evicted since
  const uint64_t now_ns = contents_.residency.now();
  {
    makes_room_for_ = &load;
    thread_ = RestorationQueue::this_thread();
    const absl::Cleanup done = [this] { makes_room_for_ = nullptr; };
    const size_t leaving = leaving_bytes();
    const Restorer::Room room = leaving > 0 ? Restorer::Room::kMade : Restorer::Room::kFree;
    if (wanted > limit + leaving || !restorer_.prefetch(storage, room, lock)) return false;
  }
  storage.last_access = contents_.residency.now();
  storage.prefetched = !storage.dead;
  ++statistics.prefetches;
  statistics.prefetched_bytes += bytes;
  const uint64_t load_ns = contents_.residency.copies.tier()->load_ns(bytes);
  link_free_ns_ = std::max(link_free_ns_, now_ns) + load_ns;
  return true;
}

// How much leaves for nothing.
size_t Prefetcher::leaving_bytes() const {
  size_t bytes = 0;
  contents_.residency.copies.for_each_ahead([&](const Value& value) {
    const Storage* const storage = value.storage;
    if (storage != nullptr && !storage->evicted && has_leave(*storage)) bytes += value.bytes;
  });
  return bytes;
}

bool Prefetcher::has_leave(const Storage& storage) const {
  const Residency& residency = contents_.residency;
  if (!residency.copies.is_ahead(*storage.current) || !residency.at_rest(storage)) return false;
  if (residency.copies.over_ns(*storage.current) > residency.now()) return false;
  const StepHistory::Position next = storages_.next_use(storage);
  return next != StepHistory::kUnknown && next > makes_room_for_->position;
}

// What is used last is the cheapest.
double Prefetcher::price(const Storage& storage) const {
  const Residency& residency = contents_.residency;
  Circumstances until = residency.circumstances(storage, 0);
  until.staleness_ns = std::max<uint64_t>(history_->time_until_ns(storages_.next_use(storage)), 1);
  const uint64_t load_ns = residency.copies.tier()->load_ns(storage.current->bytes);
  return contents_.policy->time_price(load_ns, until).value_or(0);
}

}  // namespace tidepool::remat
