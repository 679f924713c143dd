#include "bindings/torch/plugin/device_json.h"

namespace tidepool::torch_glue {
namespace {

nlohmann::json tier_json(const remat::RuntimeStatistics& remat) {
  return {
      {"offloads", remat.offloads},
      {"offloaded_bytes", remat.offloaded_bytes},
      {"copied_bytes", remat.tier.stored_bytes},
      {"fetches", remat.fetches},
      {"fetched_bytes", remat.fetched_bytes},
      {"prefetches", remat.prefetches},
      {"prefetch_hits", remat.prefetch_hits},
      {"prefetch_wasted_bytes", remat.prefetch_wasted_bytes},
      {"written_behind_bytes", remat.written_behind_bytes},
      {"write_behind_wasted_bytes", remat.write_behind_wasted_bytes},
      {"exposed_ns", remat.tier.store_ns + remat.tier.load_ns},
      {"tier_bytes", remat.tier.held_bytes},
      {"tier_peak_bytes", remat.tier.peak_bytes},
      {"tier_refusals", remat.tier.refusals},
  };
}

// Bytes without lineage, by reason.
nlohmann::json roots_json(const remat::RuntimeStatistics& remat) {
  nlohmann::json roots = nlohmann::json::object();
  for (size_t k = 1; k < static_cast<size_t>(remat::RootReason::kCount); ++k) {
    roots[remat::kRootReasonNames[k]] = remat.root_bytes[k];
  }
  return roots;
}

}  // namespace

nlohmann::json device_json(const AllocatorStatistics& memory, const remat::RuntimeStatistics& remat,
                           const remat::BackgroundPlannerStatistics& planning) {
  nlohmann::json coverage = nlohmann::json::object();
  for (const auto& [name, counts] : remat.chaos_coverage) {
    coverage[name] = {{"made", counts.made}, {"restored", counts.restored}};
  }
  nlohmann::json out = {
      {"budget_bytes", memory.budget_bytes},
      {"limit_bytes", memory.limit_bytes},
      {"device_refusals", memory.device_refusals},
      {"reserved_bytes", memory.reserved_bytes},
      {"reserved_peak_bytes", memory.reserved_peak_bytes},
      {"allocated_bytes", memory.allocated_bytes},
      {"allocated_peak_bytes", memory.allocated_peak_bytes},
      {"requested_bytes", memory.requested_bytes},
      {"requested_peak_bytes", memory.requested_peak_bytes},
      {"allocations", memory.allocations},
      {"frees", memory.frees},
      {"evictions", remat.evictions},
      {"evicted_bytes", remat.evicted_bytes},
      {"rematerializations", remat.rematerializations},
      {"replay_ns", remat.replay_ns},
      {"search_ns", memory.search_ns},
      {"bookkeeping_ns", remat.bookkeeping_ns},
      {"operators_seen", remat.operators_seen},
      {"operators_recorded", remat.operators_recorded},
      {"operators_replayed", remat.operators_replayed},
      {"root_bytes", roots_json(remat)},
      {"escapes", remat.escapes},
      {"windows", memory.windows},
      {"remaps", memory.remaps},
      {"moves", memory.moves},
      {"moved_bytes", memory.moved_bytes},
      {"remapped_bytes", memory.remapped_bytes},
      {"retries", memory.retries},
      {"num_ooms", memory.out_of_memory},
      {"unseen_writes", remat.unseen_writes},
      {"contents_compared", remat.contents_compared},
      {"contents_different", remat.contents_different},
      {"chaos_coverage", coverage},
      {"ghosts", remat.ghosts},
      {"retained", remat.retained},
      {"retained_bytes", remat.retained_bytes},
      {"plans", remat.plans},
      {"longest_plan", remat.longest_plan},
      {"step_searches", planning.searches},
      {"step_search_ns", planning.search_ns},
      {"step_plans", planning.plans},
      {"step_plans_taken_back", planning.taken_back},
      {"foreseen_steps", remat.foresight.steps},
      {"foreseen_kept", remat.foresight.kept},
      {"foreseen_bytes_error", remat.foresight.mean_bytes_error()},
      {"foreseen_bytes_error_most", remat.foresight.most_bytes_error},
      {"foreseen_time_error", remat.foresight.mean_time_error()},
      {"foreseen_tried", planning.sizes.tried},
      {"foreseen_plans", planning.sizes.plans},
      {"foreseen_plans_taken_back", planning.sizes.taken_back},
      {"foreseen_search_ns", planning.sizes.search_ns},
      {"values", remat.values},
      {"records", remat.records},
      {"storages", remat.storages},
      {"lineage_bytes", remat.lineage_bytes},
      {"bookkeeping_bytes", remat.bookkeeping_bytes},
  };
  out.update(tier_json(remat));
  return out;
}

}  // namespace tidepool::torch_glue
