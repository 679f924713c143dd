#include "remat/plan/chain/held_step.h"

#include <algorithm>

namespace tidepool::remat {
namespace {

// How long a storage is held if nothing is dropped.
Moment last_held(const StepValue& value) {
  return value.released == kNeverUsed ? kNeverUsed : std::max(value.released, value.made + 1) - 1;
}

// Of the results of a turn, those that would have a segment run again long before the rest of it is
// needed: results that are first read when far more bytes made later than they are not yet read.
std::vector<StorageIndex> early_results(const StepValues& values, std::vector<Turned> results,
                                        size_t operators) {
  constexpr size_t kFarMore = 16;
  std::sort(results.begin(), results.end(), [&](const Turned& a, const Turned& b) {
    return values[a.storage].made > values[b.storage].made;
  });
  std::vector<StorageIndex> early;
  std::vector<size_t> sums(operators + 1);  // bytes by first read: a tree of Fenwick (1994)
  for (const Turned& each : results) {
    size_t waiting = 0;  // bytes made later and read later
    const size_t bytes = values[each.storage].bytes;
    for (size_t k = operators - each.first_read; k > 0; k &= k - 1) waiting += sums[k];
    if (bytes * kFarMore < waiting) early.push_back(each.storage);
    for (size_t k = operators - each.first_read + 1; k < sums.size(); k += k & (~k + 1)) {
      sums[k] += bytes;
    }
  }
  return early;
}

}  // namespace

HeldPeak peak_of(const Held& held, std::span<const Schedule::ReplayPeak> replays, Moment first,
                 Moment last) {
  const std::vector<size_t> bytes = held.by_operator();
  HeldPeak most;
  for (Moment at = first; at < bytes.size() && at <= last; ++at) {
    if (bytes[at] > most.bytes) most = {bytes[at], at};
  }
  for (const Schedule::ReplayPeak& replay : replays) {
    if (replay.at < first || replay.at > last) continue;
    const int64_t peak = static_cast<int64_t>(bytes[replay.at]) + replay.bytes;
    if (peak > static_cast<int64_t>(most.bytes)) most = {static_cast<size_t>(peak), replay.at};
  }
  return most;
}

HeldStep::HeldStep(const Trace& step)
    : trace(step), values(step), held(step.operators.size()), held_until(step.storages.size()) {
  for (size_t k = 0; k < values.size(); ++k) {
    const StepValue& value = values[static_cast<StorageIndex>(k)];
    held_until[k] = last_held(value);
    // A root may begin before storages are given up that the operator before it has used.
    const Moment begin = value.root && value.made > 0 ? value.made - 1 : value.made;
    held.add(begin, held_until[k], value.bytes);
  }
  for (Moment at = 0; at < trace.operators.size(); ++at) {
    held.add(at, at, trace.aligned(trace.operators[at].workspace_bytes));
  }
}

std::vector<size_t> HeldStep::waiting() const {
  Held waiting(trace.operators.size());
  for (size_t k = 0; k < values.size(); ++k) {
    const auto storage = static_cast<StorageIndex>(k);
    const StepValue& value = values[storage];
    const Moment last = values.last_use(storage);
    if (value.replayable && last > value.last_write) {
      waiting.add(value.last_write + 1, last, value.bytes);
    }
  }
  return waiting.by_operator();
}

Moment HeldStep::turn_near(Moment at) const {
  const std::vector<size_t> bytes = waiting();
  if (bytes[at] == 0) return 0;
  size_t begin = at, end = at;
  while (begin > 0 && bytes[begin - 1] >= bytes[at]) --begin;
  while (end < bytes.size() && bytes[end] >= bytes[at]) ++end;
  const auto first = bytes.begin() + static_cast<ptrdiff_t>(begin);
  const auto most = std::max_element(first, bytes.begin() + static_cast<ptrdiff_t>(end));
  return static_cast<Moment>(most - bytes.begin());
}

Moment HeldStep::turn_of_most() const {
  const std::vector<size_t> bytes = waiting();
  const auto most = std::max_element(bytes.rbegin(), bytes.rend());
  return most == bytes.rend() || *most == 0 ? 0 : static_cast<Moment>(bytes.rend() - most - 1);
}

std::vector<Turned> HeldStep::results_at(Moment turn) const {
  std::vector<Turned> results;
  for (size_t k = 0; k < values.size(); ++k) {
    const auto storage = static_cast<StorageIndex>(k);
    const StepValue& value = values[storage];
    if (!value.replayable || value.last_write >= turn) continue;
    const auto uses = values.uses(storage);
    const auto next = std::lower_bound(uses.begin(), uses.end(), turn);
    if (next != uses.end()) results.push_back({storage, *next, uses.back()});
  }
  return results;
}

Held HeldStep::others(std::span<const Turned> results) const {
  Held others = held;
  for (const Turned& each : results) {
    const StepValue& value = values[each.storage];
    others.add(value.made, held_until[number(each.storage)], value.bytes, -1);
  }
  return others;
}

bool HeldStep::leave_some(Moment turn) {
  const auto early = early_results(values, results_at(turn), trace.operators.size());
  for (const StorageIndex each : early) values.settle(each);
  bool any = !early.empty();
  for (size_t k = 0; k < values.size(); ++k) {
    const StepValue& value = values[static_cast<StorageIndex>(k)];
    if (!value.replayable || value.made >= turn || value.last_write < turn) continue;
    values.settle(static_cast<StorageIndex>(k));
    any = true;
  }
  return any;
}

}  // namespace tidepool::remat
