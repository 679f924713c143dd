#include "remat/replay/report.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace tidepool::remat {
namespace {

using Json = nlohmann::ordered_json;

Json fields_of(const Run& run) {
  const SimulationResult& result = run.result;
  const bool ok = result.status == SimulationStatus::kOk;
  Json out;
  out["trace"] = run.trace;
  out["policy"] = run.policy;
  out["memory"] = name_of(run.memory);
  out["ratio"] = run.ratio;
  out["budget_bytes"] = run.budget_bytes;
  out["limit_bytes"] = result.limit_bytes;
  out["iterations"] = run.iterations;
  out["iteration"] = result.iteration;
  if (run.oracle) out["oracle"] = true;
  out["status"] = name_of(result.status);
  out["overhead"] = ok ? Json(result.overhead) : Json(nullptr);
  out["lower_bound"] = run.lower_bound ? Json(*run.lower_bound) : Json(nullptr);
  out["peak_bytes"] = result.peak_bytes;
  out["reserved_peak_bytes"] = result.reserved_peak_bytes;
  out["evictions"] = result.evictions;
  out["evicted_bytes"] = result.evicted_bytes;
  out["operators_replayed"] = result.operators_replayed;
  out["copied_bytes"] = result.copied_bytes;
  out["remapped_bytes"] = result.remapped_bytes;
  out["stored_bytes"] = result.stored_bytes;
  out["loaded_bytes"] = result.loaded_bytes;
  out["exposed_ns"] = result.exposed_ns;
  out["exposed_out_ns"] = result.exposed_out_ns;
  out["written_behind_bytes"] = result.written_behind_bytes;
  out["write_behind_wasted_bytes"] = result.write_behind_wasted_bytes;
  out["prefetches"] = result.prefetches;
  out["prefetch_hits"] = result.prefetch_hits;
  out["windows"] = result.windows;
  out["remaps"] = result.remaps;
  out["fragmentation"] = result.fragmentation;
  out["rematerializations"] = result.rematerializations;
  out["ghosts"] = result.ghosts;
  out["longest_plan"] = result.longest_plan;
  out["plan_peak_bytes"] = result.plan_peak_bytes;
  const ForesightStatistics& foresight = result.foresight;
  out["foreseen_steps"] = foresight.steps;
  out["foreseen_kept"] = foresight.kept;
  out["foreseen_bytes_error"] = foresight.mean_bytes_error();
  out["foreseen_bytes_error_most"] = foresight.most_bytes_error;
  out["foreseen_time_error"] = foresight.mean_time_error();
  out["foreseen_plans"] = result.foreseen_plans;
  out["foreseen_plans_taken_back"] = result.foreseen_plans_taken_back;
  out["baseline_ns"] = result.baseline_ns;
  out["compute_ns"] = result.compute_ns;
  out["prices"] = result.prices;
  out["search_ns"] = result.search_ns;
  out["planning_ns"] = result.planning_ns;
  out["wall_ns"] = result.wall_ns;
  out["reason"] = ok ? Json(nullptr) : Json(result.reason);
  return out;
}

// Says how the run failed and, where it has several iterations, in which one.
std::string failure_of(const Run& run) {
  const char* const name = name_of(run.result.status);
  if (run.iterations == 1) return name;
  return fmt::format("{} in iteration {}", name, run.result.iteration);
}

std::string csv_cell(const Json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c == '\n' ? ' ' : c;
  }
  return quoted + '"';
}

}  // namespace

std::string json_line(const Run& run) {
  return fields_of(run).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string csv_text(std::span<const Run> runs) {
  std::string text;
  for (const Run& run : runs) {
    const Json fields = fields_of(run);
    std::string heading;
    std::string line;
    for (const auto& [name, value] : fields.items()) {
      heading += (heading.empty() ? "" : ",") + name;
      line += (line.empty() ? "" : ",") + csv_cell(value);
    }
    if (text.empty()) text = heading + "\n";
    text += line + "\n";
  }
  return text;
}

std::string table_text(std::span<const Run> runs) {
  std::string text =
      fmt::format("{:<12} {:>6} {:>10} {:>9} {:>9} {:>10} {:>11} {:>8} {:>5} {:>5} {:>9}\n",
                  "policy", "ratio", "overhead", "evictions", "replays", "peak MiB", "moved MiB",
                  "search", "frag", "plan", "status");
  for (const Run& run : runs) {
    const SimulationResult& result = run.result;
    const bool ok = result.status == SimulationStatus::kOk;
    text += fmt::format(
        "{:<12} {:>6.3f} {:>10} {:>9} {:>9} {:>10.1f} {:>11.1f} {:>6.1f}ms {:>5.2f} {:>5} {:>9}\n",
        run.policy, run.ratio, ok ? fmt::format("{:.4f}", result.overhead) : "-", result.evictions,
        result.operators_replayed, static_cast<double>(result.peak_bytes) / (1 << 20),
        static_cast<double>(result.copied_bytes + result.remapped_bytes) / (1 << 20),
        static_cast<double>(result.search_ns) / 1e6, result.fragmentation, result.longest_plan,
        ok ? "ok" : failure_of(run));
    if (!ok && runs.size() == 1) text += result.reason + "\n";
  }
  return text;
}

std::string json_line(const LeastBudget& budget) {
  Json out;
  out["trace"] = budget.trace;
  out["policy"] = budget.policy;
  out["memory"] = name_of(budget.memory);
  out["peak_bytes"] = budget.peak.peak_bytes;
  out["floor_bytes"] = budget.peak.floor_bytes;
  out["chain_bytes"] = budget.chain.bytes;
  out["chain_replay_ns"] = budget.chain.replay_ns;
  out["chain_turns"] = budget.chain.turns;
  out["chain_places"] = budget.chain.places;
  out["chain_cuts"] = budget.chain.cuts;
  out["chain_widest_cut"] = budget.chain.widest_cut;
  out["simulated_bytes"] = budget.simulated_bytes ? Json(*budget.simulated_bytes) : Json(nullptr);
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string table_text(std::span<const LeastBudget> budgets) {
  std::string text;
  for (const LeastBudget& budget : budgets) {
    const auto mib = [&](size_t bytes) {
      const auto share = static_cast<double>(bytes) /
                         static_cast<double>(std::max<size_t>(budget.peak.peak_bytes, 1));
      return fmt::format("{:>10.1f} MiB {:>6.3f}", static_cast<double>(bytes) / (1 << 20), share);
    };
    if (text.empty()) {
      text = fmt::format("lower bound             {}\n", mib(budget.peak.floor_bytes));
      text += fmt::format("cut into segments       {}  {} cuts at {} places, turns {}, widest {}\n",
                          mib(budget.chain.bytes), budget.chain.cuts, budget.chain.places,
                          budget.chain.turns, budget.chain.widest_cut);
    }
    text += fmt::format(
        "{:<23} {}\n", budget.policy,
        budget.simulated_bytes ? mib(*budget.simulated_bytes) : "        runs with none");
  }
  return text;
}

std::string summary_text(std::span<const Run> runs) {
  std::string text;
  for (size_t k = 0; k < runs.size();) {
    const std::string& policy = runs[k].policy;
    const Run* before = nullptr;
    const Run* worst = nullptr;
    double rise = 1;
    double lowest = 0;
    size_t ran = 0;
    std::string holes;
    std::string failed;  // the ratios that failed since the last one that ran
    const size_t first = k;
    for (; k < runs.size() && runs[k].policy == policy; ++k) {
      const Run& run = runs[k];
      if (run.result.status != SimulationStatus::kOk) {
        if (before != nullptr) failed += fmt::format(" {:g}", run.ratio);
        continue;
      }
      if (before == nullptr) lowest = run.ratio;
      if (before != nullptr && run.result.overhead > rise * before->result.overhead) {
        rise = run.result.overhead / before->result.overhead;
        worst = &run;
      }
      holes += std::exchange(failed, "");
      before = &run;
      ++ran;
    }
    text += fmt::format("{}: {} of {} run", policy, ran, k - first);
    if (ran > 0) text += fmt::format(", from ratio {:g}", lowest);
    // A ratio that fails above all that run is a hole, too.
    if (!(holes + failed).empty()) text += fmt::format("; fails at{}{}", holes, failed);
    if (worst != nullptr) {
      text += fmt::format("; worst rise with the budget {:.3f}x at {:g}", rise, worst->ratio);
    }
    text += "\n";
  }
  return text;
}

}  // namespace tidepool::remat
