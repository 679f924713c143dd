// What the runtime reports: statistics, and what pins memory when a request fails.
#include <array>
#include <string>

#include "remat/runtime.h"
#include "remat/runtime_state.h"

namespace tidepool::remat {

RuntimeStatistics Runtime::statistics() const {
  DeviceLock lock(state_->mutex);
  const State& state = *state_;
  const RestorationStatistics& restored = state.restorer.statistics;
  RuntimeStatistics out;
  out.operators_seen = state.operators_seen;
  out.operators_recorded = state.operators_recorded;
  out.operators_replayed = restored.operators_replayed;
  out.evictions = state.residency.evictions;
  out.evicted_bytes = state.residency.evicted_bytes;
  out.rematerializations = state.residency.rematerializations;
  out.contents_compared = state.residency.check.compared;
  out.contents_different = state.residency.check.different;
  out.chaos_coverage = state.residency.check.coverage();
  out.ghosts = restored.ghosts;
  out.retained = state.root_loss.retained;
  out.escapes = state.escapes;
  out.plans = restored.plans;
  out.longest_plan = restored.longest_plan;
  out.plan_peak_bytes = restored.plan_peak_bytes;
  out.lean_plans = restored.lean_plans;
  out.clones = restored.clones;
  out.snapshots = state.snapshots;
  out.operand_checks = state.operand_checks;
  out.dependent_checks = state.root_loss.checks;
  out.replay_ns = restored.replay_ns;
  out.bookkeeping_ns = restored.planning_ns;
  out.values = state.store.values();
  out.records = state.store.records();
  out.storages = state.store.storages();
  out.lineage_bytes = state.store.bytes();
  for (const Value* value : state.residency.kept()) {
    if (value->producer == nullptr) out.retained_bytes += value->bytes;
  }
  state.store.for_each_storage([&](const Storage& storage) {
    if (storage.current == nullptr || storage.current->producer != nullptr) return;
    out.root_bytes[static_cast<size_t>(storage.current->reason)] += storage.current->bytes;
  });
  return out;
}

std::vector<PinnedBytes> Runtime::pinned(size_t* indispensable_bytes) {
  const State& state = *state_;
  constexpr size_t kReasons = static_cast<size_t>(RootReason::kCount);
  std::array<size_t, kReasons> roots = {};
  std::array<size_t, static_cast<size_t>(Role::kCount)> roles = {};
  size_t locked = 0;
  size_t fixed = 0;
  size_t held = state.restorer.bytes_in_flight();
  size_t retained = 0;
  state.store.for_each_storage([&](const Storage& storage) {
    if (storage.current == nullptr || storage.evicted) return;
    const Value& value = *storage.current;
    const size_t bytes = state.allocator.block_bytes(storage.address);
    if (value.producer != nullptr) {
      if (storage.locks > 0) {
        locked += bytes;
      } else if (storage.fixed) {
        fixed += bytes;
      } else if (value.locks > 0) {
        held += bytes;
      }
    } else if (storage.role != Role::kOther) {
      roles[static_cast<size_t>(storage.role)] += bytes;
    } else {
      roots[static_cast<size_t>(value.reason)] += bytes;
    }
  });
  for (const Value* value : state.residency.kept()) {
    (value->producer != nullptr ? held : retained) += state.allocator.block_bytes(value->kept);
  }
  *indispensable_bytes = state.indispensable_bytes(false);
  std::vector<PinnedBytes> out;
  auto report = [&](std::string reason, size_t bytes) {
    if (bytes > 0) out.push_back({std::move(reason), bytes});
  };
  report("parameters", roles[static_cast<size_t>(Role::kParameter)]);
  report("optimizer state", roles[static_cast<size_t>(Role::kOptimizerState)]);
  report("inputs", roles[static_cast<size_t>(Role::kInput)]);
  report("locked by running operators", locked);
  report("address handed out", fixed);
  report("held by a restoration", held);
  report("retained for evicted tensors", retained);
  for (size_t k = 0; k < kReasons; ++k) {
    const bool escaped = static_cast<RootReason>(k) == RootReason::kEscaped;
    report(escaped ? "escaped" : std::string("no lineage: ") + kRootReasonNames[k], roots[k]);
  }
  return out;
}

}  // namespace tidepool::remat
