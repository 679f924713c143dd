// What the runtime reports: statistics, and what memory is used for when a request fails.
#include "remat/memory_uses.h"
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
  out.retained = state.dependent_cut.retained;
  out.escapes = state.escapes;
  out.plans = restored.plans;
  out.longest_plan = restored.longest_plan;
  out.plan_peak_bytes = restored.plan_peak_bytes;
  out.lean_plans = restored.lean_plans;
  out.clones = restored.clones;
  out.snapshots = state.snapshots;
  out.operand_checks = state.operand_checks;
  out.dependent_checks = state.dependent_cut.checks;
  out.replay_ns = restored.replay_ns;
  out.bookkeeping_ns = restored.planning_ns;
  out.values = state.store.values();
  out.records = state.store.records();
  out.storages = state.store.storages();
  out.lineage_bytes = state.store.bytes();
  out.bookkeeping_bytes = state.limits.bookkeeping_bytes();
  for (const Value* value : state.residency.kept()) {
    if (value->producer == nullptr) out.retained_bytes += value->bytes;
  }
  state.store.for_each_storage([&](const Storage& storage) {
    if (storage.current == nullptr || storage.current->producer != nullptr) return;
    out.root_bytes[static_cast<size_t>(storage.current->reason)] += storage.current->bytes;
  });
  return out;
}

void Runtime::tell_uses(std::span<HeldBlock> blocks) {
  const MemoryUses uses(state_->store, state_->residency, state_->queue, state_->restorer,
                        state_->backend);
  for (HeldBlock& block : blocks) block.use = uses.of(block);
}

}  // namespace tidepool::remat
