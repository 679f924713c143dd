// tidepool-replay: a program that simulates a recorded trace under budgets, and reports the costs.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "remat/policies/table/policy_table.h"
#include "remat/replay/graph_text.h"
#include "remat/replay/overhead_plot.h"
#include "remat/replay/report.h"
#include "remat/replay/runs.h"

namespace tidepool::remat {
namespace {

constexpr int kRefused = 1, kMisused = 2;  // the exit statuses of failures

// Progress: a bar of the runs done, on a terminal; elsewhere it shows nothing.
class Progress {
 public:
  Progress(std::string what, size_t total)
      : what_(std::move(what)), total_(total), shown_(isatty(STDERR_FILENO) != 0 && total > 1) {}
  ~Progress() {
    if (shown_) fmt::print(stderr, "\r\x1b[K");
  }
  void show(size_t done) const {
    if (!shown_) return;
    constexpr size_t kCells = 40;
    const size_t full = done * kCells / total_;
    fmt::print(stderr, "\r{} [{}{}] {}/{}", what_, std::string(full, '#'),
               std::string(kCells - full, '.'), done, total_);
    std::fflush(stderr);
  }

 private:
  const std::string what_;
  const size_t total_;
  const bool shown_;
};

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw std::runtime_error(fmt::format("{}: cannot be written", path));
  fmt::print(stderr, "wrote {}\n", path);
}

void print_heading(const ReplayOptions& options, const Trace& trace) {
  const TracePeak peak = trace_peak(trace);
  fmt::print("{}: {} operators, peak {:.1f} MiB, compute {:.3f} ms; memory {}, iteration {}{}\n",
             trace.facts.name, trace.operators.size(),
             static_cast<double>(peak.peak_bytes) / (1 << 20),
             static_cast<double>(trace.baseline_ns()) / 1e6, name_of(options.memory),
             options.iterations, options.oracle ? ", oracle" : "");
}

void print_least_budgets(const ReplayOptions& options, const Trace& trace) {
  const std::vector<LeastBudget> budgets = find_least_budgets(options, trace);
  if (!options.json) {
    print_heading(options, trace);
    fmt::print("{}", table_text(budgets));
    return;
  }
  for (const LeastBudget& budget : budgets) fmt::print("{}\n", json_line(budget));
}

void write_plans(const ReplayOptions& options, const Trace& trace) {
  const TracePlans plans = find_plans_of(options, trace);
  if (plans.file.steps.empty()) {
    throw std::runtime_error(
        "under this budget no step runs with any plan: tidepool-replay TRACE --least-budget says "
        "from which on they do");
  }
  for (size_t k = 0; k < plans.overheads.size(); ++k) {
    const PlannedStep& step = plans.file.steps[k];
    fmt::print("step {}, {} operators: {}, compute {:.4f} times that without a budget\n", k + 1,
               step.operators, step.plan.policy, plans.overheads[k]);
  }
  if (plans.failed > 0) fmt::print("steps that run under no plan: {}\n", plans.failed);
  write_file(options.write_plan_path, plan_text(plans.file));
}

void write_graph(const ReplayOptions& options, const Trace& trace) {
  GapSearchConfig search;
  search.budget_bytes = plan_runs(options, trace).front().budget_bytes;
  search.goal = options.goal;
  if (options.graph_seconds > 0) {
    search.operators = static_cast<uint64_t>(options.graph_seconds * kOperatorsPerSecond);
  }
  const EnergyTable energy =
      options.energy_path.empty() ? EnergyTable() : read_energy_table(options.energy_path);
  fmt::print("{}", graph_text(trace, search, energy));
}

void replay(const ReplayOptions& options, const std::string& path) {
  const Trace trace = load_trace(options, path);
  if (!options.write_plan_path.empty()) return write_plans(options, trace);
  if (options.graph) return write_graph(options, trace);
  if (options.least_budget) return print_least_budgets(options, trace);
  std::vector<Run> runs = plan_runs(options, trace);
  {
    const Progress progress(trace.facts.name, runs.size());
    execute_runs(options, trace, runs, [&](size_t done) { progress.show(done); });
  }
  if (options.json) {
    for (const Run& run : runs) fmt::print("{}\n", json_line(run));
  } else {
    print_heading(options, trace);
    fmt::print("{}", table_text(runs));
    if (options.grid) fmt::print("{}", summary_text(runs));
  }
  if (!options.grid) return;
  const std::string stem = fmt::format("{}-{}", trace.facts.name, name_of(options.memory));
  write_file(options.csv_path.empty() ? stem + ".csv" : options.csv_path, csv_text(runs));
  write_file(options.svg_path.empty() ? stem + ".svg" : options.svg_path,
             overhead_plot(runs, fmt::format("{}, memory {}, iteration {}{}", trace.facts.name,
                                             name_of(options.memory), options.iterations,
                                             options.oracle ? ", oracle" : "")));
}

int run(int count, char** arguments) {
  try {
    const std::vector<std::string> texts(arguments + 1, arguments + count);
    const ReplayOptions options = parse_options(texts);
    if (options.help) {
      fmt::print("{}", kReplayHelp);
      return 0;
    }
    if (options.list_policies) {
      const auto baselines = baseline_names();
      const auto own = policy_names().first(policy_names().size() - baselines.size());
      fmt::print("{}\n\nbaselines, for comparison:\n{}\n", fmt::join(own, "\n"),
                 fmt::join(baselines, "\n"));
      return 0;
    }
    for (const std::string& path : options.traces) replay(options, path);
    return 0;
  } catch (const UsageError& error) {
    fmt::print(stderr, "tidepool-replay: {}\nTry 'tidepool-replay --help'.\n", error.what());
    return kMisused;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tidepool-replay: {}\n", error.what());
    return kRefused;
  }
}

}  // namespace
}  // namespace tidepool::remat

int main(int count, char** arguments) { return tidepool::remat::run(count, arguments); }
