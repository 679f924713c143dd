#include "remat/plan/chain/step_values.h"

#include <algorithm>

namespace tidepool::remat {
namespace {

// A storage that is written by a later operator than so many after the one that makes it is no
// intermediate result that an activation changes in place, but something that accumulates.
constexpr Moment kMostWriteDistance = 16;

}  // namespace

StepValues::StepValues(const Trace& trace)
    : trace_(trace),
      values_(trace.storages.size()),
      first_use_(values_.size() + 1),
      writes_(values_.size()),
      until_(values_.size(), kNeverUsed),
      settled_(values_.size()),
      refused_(values_.size()),
      limit_(values_.size()) {
  for (size_t k = 0; k < values_.size(); ++k) {
    values_[k].bytes = trace.aligned_bytes(static_cast<StorageIndex>(k));
    values_[k].root = trace.storages[k].root;
    refused_[k] = values_[k].root || values_[k].bytes == 0;
  }
  std::vector<std::pair<uint32_t, Moment>> uses;
  Moment now = 0;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == EventKind::kRelease) values_[event.index].released = now;
    if (event.kind == EventKind::kRoot) values_[event.index].made = now;
    if (event.kind != EventKind::kOperator) continue;
    const TraceOperator& op = trace.operators[event.index];
    now = event.index;
    for (const StorageIndex read : trace.reads(op)) uses.emplace_back(number(read), now);
    for (const TraceWrite& write : trace.writes(op)) {
      const size_t at = number(write.storage);
      uses.emplace_back(at, now);
      writes_[at].push_back(now);
      values_[at].last_write = now;
      if (!op.recordable || write.access == Access::kSideWrite) refused_[at] = true;
      if (now - values_[at].made > kMostWriteDistance) refused_[at] = true;
    }
    for (const StorageIndex output : trace.outputs(op)) {
      StepValue& value = values_[number(output)];
      value.made = value.last_write = now;
      if (!op.recordable) refused_[number(output)] = true;
    }
    ++now;
  }
  std::stable_sort(uses.begin(), uses.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [storage, moment] : uses) {
    ++first_use_[storage + 1];
    uses_.push_back(moment);
  }
  for (size_t k = 0; k + 1 < first_use_.size(); ++k) first_use_[k + 1] += first_use_[k];
  find_replayable();
}

void StepValues::settle(StorageIndex index, Moment until) {
  settled_[number(index)] = true;
  until_[number(index)] = until;
}

// The first moment after `at` when the contents of a storage are not those of `at` any more.
Moment StepValues::unchanged_until(StorageIndex index, Moment at) const {
  const std::vector<Moment>& writes = writes_[number(index)];
  const auto next = std::upper_bound(writes.begin(), writes.end(), at);
  return std::min(until_[number(index)], next == writes.end() ? kNeverUsed : *next);
}

// The moment until which operator `at` can be run again.
Moment StepValues::limit_of(const TraceOperator& op, Moment at) const {
  Moment limit = kNeverUsed;
  const auto need = [&](StorageIndex index) {
    const bool replayable = values_[number(index)].replayable;
    limit = std::min(limit, replayable ? limit_[number(index)] : unchanged_until(index, at));
  };
  for (const StorageIndex read : trace_.reads(op)) need(read);
  for (const TraceWrite& write : trace_.writes(op)) {
    if (write.access == Access::kSideWrite) continue;  // replays do not repeat it
    if (!values_[number(write.storage)].replayable) return 0;
    need(write.storage);
  }
  return limit;
}

// Begins with all storages that could be, and takes out those that cannot. An operator between the
// first and the last write of one of these has counted on it, so that all are looked at again.
void StepValues::find_replayable() {
  for (size_t k = 0; k < values_.size(); ++k) values_[k].replayable = !refused_[k] && !settled_[k];
  for (bool changed = true; changed;) {
    changed = false;
    const auto limit_to = [&](StorageIndex index, Moment at, Moment limit) {
      StepValue& value = values_[number(index)];
      Moment& whole = limit_[number(index)];
      whole = value.made == at ? limit : std::min(whole, limit);
      if (!value.replayable || value.last_write > at || last_use(index) < whole) return;
      value.replayable = false;
      changed = true;
    };
    for (Moment at = 0; at < trace_.operators.size(); ++at) {
      const TraceOperator& op = trace_.operators[at];
      const Moment limit = limit_of(op, at);
      for (const StorageIndex output : trace_.outputs(op)) limit_to(output, at, limit);
      for (const TraceWrite& write : trace_.writes(op)) limit_to(write.storage, at, limit);
    }
  }
}

}  // namespace tidepool::remat
