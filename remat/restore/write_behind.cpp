#include "remat/restore/write_behind.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tidepool::remat {

void WriteBehind::left(const Storage& storage, bool ahead) {
  const uint64_t now_ns = contents_.residency.now();
  if (!ahead) {
    const uint64_t copy_ns = contents_.residency.copies.tier()->store_ns(storage.current->bytes);
    link_free_ns_ = std::max(link_free_ns_, now_ns) + copy_ns;
  }
  if (!storages_.is_known(storage) || present_.size() == kMostDepartures) return;
  const bool met = storages_.is_met(storage);
  if (!met) present_form_ = history_->expected_form();
  present_.push_back({history_->position(), storage.step_number, met});
}

void WriteBehind::end_step() {
  const uint64_t fingerprint = history_->last_fingerprint();
  // What the step had not met has its number only if the step was of the form that was expected.
  if (history_->last_form() != present_form_) {
    std::erase_if(present_, [](const Departure& departure) { return !departure.met; });
  }
  const auto found = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& kind) {
    return kind.fingerprint == fingerprint;
  });
  Kind kind{fingerprint, history_->last_form(), std::exchange(present_, {}), {}};
  if (found != kinds_.end()) {
    kind.before = std::move(found->last);
    kinds_.erase(found);
  } else if (kinds_.size() == StepHistory::kKinds) {
    kinds_.pop_front();
  }
  kinds_.push_back(std::move(kind));
  present_form_ = 0;
}

void WriteBehind::learn(const WriteBehind& other) {
  kinds_ = other.kinds_;
  for (Kind& kind : kinds_) kind.before.clear();
  expectation_ = 0;
}

// Of a step of another size what left in the last one of its form is the best guess.
const WriteBehind::Kind* WriteBehind::find_kind() const {
  const Kind* found = nullptr;
  for (const Kind& kind : kinds_) {
    if (kind.fingerprint == history_->expected_fingerprint()) return &kind;
    if (kind.form == history_->expected_form()) found = &kind;
  }
  return found;
}

// What is used again soon leaves at the wrong time: its copies would hold up those of others.
bool WriteBehind::pays(uint32_t number, StepHistory::Position from,
                       StepHistory::Position until) const {
  const StepList& list = history_->expected_list();
  const Tier& tier = *contents_.residency.copies.tier();
  const uint64_t copies_ns = tier.store_ns(list.bytes[number]) + tier.load_ns(list.bytes[number]);
  return list.start_ns_of(until) - list.start_ns_of(from) >= kPaying * copies_ns;
}

void WriteBehind::add_wanted(const std::vector<Departure>& departures) {
  size_t bytes = 0;  // during one call
  for (size_t k = 0; k < departures.size(); ++k) {
    const Departure& departure = departures[k];
    if (departure.number >= made_.size()) continue;
    if (k > 0 && departure.position != departures[k - 1].position) bytes = 0;
    bytes += history_->expected_list().bytes[departure.number];
    reserve_bytes_ = std::max(reserve_bytes_, bytes);
    if (departure.position < history_->position()) continue;
    const auto uses = history_->uses(departure.number);
    const auto after = std::lower_bound(uses.begin(), uses.end(), departure.position);
    StepHistory::Position ready = made_at(departure.number);
    if (after != uses.begin()) ready = std::max(ready, *std::prev(after));
    if (after != uses.end() && !pays(departure.number, ready, *after)) continue;
    coming_.push_back(
        {ready, departure.position, departure.number, static_cast<uint32_t>(after - uses.begin())});
  }
}

// What left before a step had used it will do so in the next step, too: it may be copied once this
// one has used it for the last time.
void WriteBehind::add_wanted_next(const std::vector<Departure>& departures) {
  if (!history_->expects_repetition()) return;
  const StepHistory::Position calls = history_->expected_calls();
  for (const Departure& departure : departures) {
    if (departure.number >= made_.size() || made_[departure.number] != kNotMade) continue;
    const auto uses = history_->uses(departure.number);
    if (uses.empty() || uses.front() < departure.position) continue;
    const StepHistory::Position until = calls + uses.front();
    if (!pays(departure.number, uses.back(), until)) continue;
    coming_.push_back({uses.back(), calls + departure.position, departure.number,
                       static_cast<uint32_t>(uses.size())});
  }
}

void WriteBehind::find_spares() {
  const auto& calls = history_->expected_list().entries;
  const uint64_t far_ns = history_->expected_list().length_ns / kFarShare;
  for (uint32_t number = 0; number < made_.size(); ++number) {
    StepHistory::Position ready = made_at(number);
    for (const StepHistory::Position use : history_->uses(number)) {
      if (use >= history_->position() && calls[use].start_ns - calls[ready].start_ns >= far_ns) {
        coming_spares_.push_back({ready, use, number});
      }
      ready = use;
    }
  }
  std::sort(coming_spares_.begin(), coming_spares_.end(), [](const Spare& a, const Spare& b) {
    return std::tie(a.ready, a.until, a.number) < std::tie(b.ready, b.until, b.number);
  });
}

void WriteBehind::expect() {
  expectation_ = history_->expectation();
  coming_.clear();
  ready_.clear();
  coming_spares_.clear();
  spares_.clear();
  next_ = next_spare_ = 0;
  const Kind* const kind = find_kind();
  if (kind == nullptr || (kind->last.empty() && kind->before.empty())) return;
  made_.assign(history_->expected_storages(), kNotMade);
  for (const StepHistory::Output& output : history_->expected_outputs()) {
    made_[output.number] = output.position;
  }
  reserve_bytes_ = 0;
  add_wanted(kind->last);
  add_wanted(kind->before);
  add_wanted_next(kind->last);
  // Between two of its uses a storage leaves once, when it did in the last step.
  std::stable_sort(coming_.begin(), coming_.end(), [](const Wanted& a, const Wanted& b) {
    return std::tie(a.number, a.uses) < std::tie(b.number, b.uses);
  });
  const auto same = [](const Wanted& a, const Wanted& b) {
    return a.number == b.number && a.uses == b.uses;
  };
  coming_.erase(std::unique(coming_.begin(), coming_.end(), same), coming_.end());
  uint64_t work_ns = 0;
  for (const Wanted& wanted : coming_) {
    const size_t bytes = history_->expected_list().bytes[wanted.number];
    work_ns += contents_.residency.copies.tier()->store_ns(bytes);
  }
  if (work_ns <= history_->expected_list().length_ns / kIdleShare) find_spares();
  std::sort(coming_.begin(), coming_.end(), [](const Wanted& a, const Wanted& b) {
    return std::tie(a.ready, a.leaves, a.number) < std::tie(b.ready, b.leaves, b.number);
  });
}

uint64_t WriteBehind::backlog_ns() const {
  const uint64_t now_ns = contents_.residency.now();
  return link_free_ns_ > now_ns ? link_free_ns_ - now_ns : 0;
}

bool WriteBehind::is_due(const Wanted& wanted, uint64_t copy_ns) const {
  const uint64_t backlog = backlog_ns();
  // The copies so far will be over before the next call begins.
  const auto& calls = history_->expected_list().entries;
  const StepHistory::Position next = history_->position();
  if (next < calls.size() && backlog < calls[next].start_ns - calls[next - 1].start_ns) return true;
  const auto needed_ns = static_cast<uint64_t>(kSlack * static_cast<double>(backlog + copy_ns));
  return history_->time_until_ns(wanted.leaves - 1) <= needed_ns;
}

void WriteBehind::begin_copy(Storage& storage, uint64_t copy_ns) {
  Residency& residency = contents_.residency;
  const uint64_t over_ns = std::max(link_free_ns_, residency.now()) + copy_ns;
  if (residency.copy_ahead(storage, over_ns)) link_free_ns_ = over_ns;
}

bool WriteBehind::begin(const Wanted& wanted) {
  Storage* const storage = storages_.find(wanted.number);
  if (storage == nullptr || storage->dead || storage->evicted || storage->current->copied) {
    return true;
  }
  if (storage->prefetched) return true;  // it was to be used before it leaves
  const Residency& residency = contents_.residency;
  if (!residency.at_rest(*storage)) return wanted.leaves <= history_->position();
  const uint64_t copy_ns = residency.copies.tier()->store_ns(storage->current->bytes);
  if (!is_due(wanted, copy_ns)) return false;
  begin_copy(*storage, copy_ns);
  return true;
}

void WriteBehind::begin_wanted() {
  const StepHistory::Position position = history_->position();
  const auto leaves_first = [](const Wanted& a, const Wanted& b) { return a.leaves < b.leaves; };
  // The call that has begun last has not run yet.
  for (; next_ < coming_.size() && coming_[next_].ready + 1 < position; ++next_) {
    const Wanted& wanted = coming_[next_];
    ready_.insert(std::upper_bound(ready_.begin(), ready_.end(), wanted, leaves_first), wanted);
  }
  size_t kept = 0, at = 0;
  for (; at < ready_.size() && kept < kMostLooked; ++at) {
    if (ready_[at].leaves < position || begin(ready_[at])) continue;
    ready_[kept++] = ready_[at];
  }
  ready_.erase(ready_.begin() + kept, ready_.begin() + at);
}

void WriteBehind::begin_spares() {
  const StepHistory::Position position = history_->position();
  const auto ends_first = [](const Spare& a, const Spare& b) { return a.until < b.until; };
  for (; next_spare_ < coming_spares_.size(); ++next_spare_) {
    const Spare& spare = coming_spares_[next_spare_];
    if (spare.ready + 1 >= position) break;
    spares_.insert(std::upper_bound(spares_.begin(), spares_.end(), spare, ends_first), spare);
  }
  const Residency& residency = contents_.residency;
  if (spares_.empty() || backlog_ns() > 0) return;
  size_t bytes = 0;
  residency.copies.for_each_ahead([&](const Value& value) { bytes += value.bytes; });
  while (!spares_.empty() && bytes < reserve_bytes_ && backlog_ns() == 0) {
    const Spare spare = spares_.back();
    if (spare.until <= position) return spares_.clear();
    Storage* const storage = storages_.find(spare.number);
    if (storage != nullptr && !storage->dead && !residency.at_rest(*storage)) {
      if (!storage->evicted) return;
    } else if (storage != nullptr && !storage->dead && !storage->current->copied) {
      begin_copy(*storage, residency.copies.tier()->store_ns(storage->current->bytes));
      if (storage->current->copied) bytes += storage->current->bytes;
    }
    spares_.pop_back();
  }
}

void WriteBehind::advance() {
  if (!history_->matching()) return;
  if (expectation_ != history_->expectation()) expect();
  begin_wanted();
  begin_spares();
}

size_t WriteBehind::bookkeeping_bytes() const {
  size_t bytes = bytes_of(present_) + bytes_of(made_) + bytes_of(coming_) + bytes_of(ready_) +
                 bytes_of(coming_spares_) + bytes_of(spares_);
  for (const Kind& kind : kinds_) bytes += bytes_of(kind.last) + bytes_of(kind.before);
  return bytes;
}

}  // namespace tidepool::remat
