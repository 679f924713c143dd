// What the runtime reports: statistics, and what memory is used for when a request fails.
#include "remat/memory_uses.h"
#include "remat/runtime.h"

namespace tidepool::remat {

RuntimeStatistics Runtime::statistics() const {
  DeviceLock lock(mutex());
  const RestorationStatistics& restored = restorer_.statistics;
  RuntimeStatistics out;
  out.operators_seen = calls_.operators_seen;
  out.operators_recorded = calls_.operators_recorded;
  out.operators_replayed = restored.operators_replayed;
  out.evictions = contents_.residency.evictions;
  out.evicted_bytes = contents_.residency.evicted_bytes;
  out.rematerializations = contents_.residency.rematerializations;
  out.contents_compared = contents_.residency.check.compared;
  out.contents_different = contents_.residency.check.different;
  out.chaos_coverage = contents_.residency.check.coverage();
  out.ghosts = restored.ghosts;
  out.retained = contents_.dependent_cut.retained;
  out.escapes = escapes_;
  out.plans = restored.plans;
  out.longest_plan = restored.longest_plan;
  out.plan_peak_bytes = restored.plan_peak_bytes;
  out.lean_plans = restored.lean_plans;
  out.clones = restored.clones;
  out.snapshots = versions_.snapshots;
  out.operand_checks = calls_.operand_checks;
  out.dependent_checks = contents_.dependent_cut.checks;
  out.replay_ns = restored.replay_ns;
  out.bookkeeping_ns = restored.planning_ns;
  out.values = contents_.store.values();
  out.records = contents_.store.records();
  out.storages = contents_.store.storages();
  out.lineage_bytes = contents_.store.bytes();
  out.bookkeeping_bytes = limits_.bookkeeping_bytes();
  for (const Value* value : contents_.residency.kept()) {
    if (value->producer == nullptr) out.retained_bytes += value->bytes;
  }
  contents_.store.for_each_storage([&](const Storage& storage) {
    if (storage.current == nullptr || storage.current->producer != nullptr) return;
    out.root_bytes[static_cast<size_t>(storage.current->reason)] += storage.current->bytes;
  });
  return out;
}

void Runtime::tell_uses(std::span<HeldBlock> blocks) {
  const MemoryUses uses(contents_, restorer_);
  for (HeldBlock& block : blocks) block.use = uses.of(block);
}

}  // namespace tidepool::remat
