// What could be gained by foreseeing steps of sizes that a job has not met yet: for each step of a
// trace whose steps have different sizes, the overhead of the first such step, of one under a plan
// that was found for it, and under the plan of the step nearest in size: all of it, its factors
// taken over result by result, and only the policy and the way of making room that it names. In the
// last two the calls of the step are known, as if they were foreseen. Usage: tidepool_new_sizes
// TRACE... [--smoke]
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "remat/plan/follow/step_digest.h"
#include "remat/plan/search/planner.h"
#include "remat/simulate/job/step_trace.h"
#include "remat/simulate/simulated_process.h"
#include "remat/trace/trace_format.h"
#include "remat/trace/trace_peak.h"

namespace tidepool::remat {
namespace {

constexpr double kRatios[] = {0.35, 0.5, 0.65};
constexpr size_t kMostSteps = 4, kSimulations = 100;

// Sized: one step of the trace.
struct Sized {
  Trace trace;
  uint64_t digest = 0;
  size_t peak_bytes = 0;
  std::vector<RankedPlan> plans;
};

// The trace's first steps that differ.
std::vector<Sized> steps_of(const Trace& trace) {
  std::vector<Sized> steps;
  size_t begin = 0;
  for (size_t k = 0; k < trace.events.size() && steps.size() < kMostSteps; ++k) {
    if (trace.events[k].kind != EventKind::kStep) continue;
    Sized step;
    step.trace = step_trace(trace, begin, k);
    begin = k + 1;
    step.digest = step_digest(step.trace, trace.facts.alignment);
    if (std::any_of(steps.begin(), steps.end(),
                    [&](const Sized& other) { return other.digest == step.digest; })) {
      continue;
    }
    step.peak_bytes = trace_peak(step.trace).peak_bytes;
    steps.push_back(std::move(step));
  }
  return steps;
}

StepHistory history_of(const Sized& step, SimulationConfig job) {
  job.memory = MemoryModel::kExact;
  job.budget_bytes = step.peak_bytes;
  const auto teacher = SimulatedProcess::make(step.trace, job);
  SimulationResult ignored;
  teacher->run_iteration(&ignored);
  return teacher->runtime().step_history();
}

// The overhead of a step; "-" if it fails. Without a history, the step is the first of its kind.
std::string overhead(const Sized& step, const SimulationConfig& job,
                     const std::optional<StepHistory>& history, const Sized* planned,
                     bool weights = true) {
  const auto process = SimulatedProcess::make(step.trace, job);
  if (process == nullptr || (planned != nullptr && planned->plans.empty())) return "-";
  if (history) process->learn(*history);
  if (planned != nullptr) {
    StepPlan plan = planned->plans[0].plan;
    plan.fingerprint = history->last_fingerprint();
    if (!weights) plan.weights.clear();
    process->set_plan(plan);
  }
  SimulationResult result;
  if (!process->run_iteration(&result)) return "-";
  process->report(&result);
  return fmt::format("{:.4f}", result.overhead);
}

// The step nearest in size, `alike`: of those that make as many results; nullptr if there is none.
const Sized* nearest(const std::vector<Sized>& steps, const Sized& step, bool alike) {
  const Sized* found = nullptr;
  const auto distance = [&](const Sized& other) {
    return std::max(other.peak_bytes, step.peak_bytes) -
           std::min(other.peak_bytes, step.peak_bytes);
  };
  const size_t results = weighted_outputs(step.trace).size();
  for (const Sized& other : steps) {
    if (&other == &step) continue;
    if (alike && weighted_outputs(other.trace).size() != results) continue;
    if (found == nullptr || distance(other) < distance(*found)) found = &other;
  }
  return found;
}

void measure(const std::string& path, bool smoke) {
  const Trace trace = read_trace(path);
  std::vector<Sized> steps = steps_of(trace);
  size_t peak_bytes = 0;
  for (const Sized& step : steps) peak_bytes = std::max(peak_bytes, step.peak_bytes);
  PlannerConfig planner;
  planner.simulations = smoke ? 1 : kSimulations;
  for (const double ratio : kRatios) {
    SimulationConfig job;
    job.policy = "planned";
    job.budget_bytes = static_cast<size_t>(ratio * static_cast<double>(peak_bytes));
    for (Sized& step : steps) step.plans = find_plans(step.trace, job, planner);
    for (const Sized& step : steps) {
      const StepHistory history = history_of(step, job);
      const Sized* const alike = nearest(steps, step, true);
      const Sized* const any = nearest(steps, step, false);
      fmt::print("| {} | {} | {:.1f} | {} | {} | {} | {} |\n", trace.facts.name, ratio,
                 static_cast<double>(step.peak_bytes) / (1 << 20),
                 overhead(step, job, std::nullopt, nullptr), overhead(step, job, history, &step),
                 alike != nullptr ? overhead(step, job, history, alike) : "-",
                 any != nullptr ? overhead(step, job, history, any, false) : "-");
    }
  }
}

}  // namespace
}  // namespace tidepool::remat

int main(int count, char** arguments) {
  const std::vector<std::string> given(arguments + 1, arguments + count);
  const bool smoke = std::find(given.begin(), given.end(), "--smoke") != given.end();
  fmt::print(
      "| trace | ratio | peak MiB | first | own plan | nearest plan | its prices |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const std::string& path : given) {
    if (path != "--smoke") tidepool::remat::measure(path, smoke);
  }
  return 0;
}
