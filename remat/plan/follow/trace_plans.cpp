#include "remat/plan/follow/trace_plans.h"

#include <algorithm>
#include <utility>

#include "remat/plan/follow/step_digest.h"
#include "remat/plan/search/planner.h"
#include "remat/simulate/job/step_trace.h"
#include "remat/simulate/list_parts.h"

namespace tidepool::remat {

std::vector<Trace> distinct_steps(const Trace& trace) {
  std::vector<Trace> steps;
  std::vector<uint64_t> digests;
  for (size_t end = trace.events.size(); end > 0;) {
    const size_t begin = step_begin(trace, end);
    Trace step = step_trace(trace, begin, end);
    end = begin;
    const uint64_t digest = step_digest(step, step.facts.alignment);
    if (digested_operators(step) == 0) continue;
    if (std::find(digests.begin(), digests.end(), digest) != digests.end()) continue;
    digests.push_back(digest);
    steps.push_back(std::move(step));
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

TracePlans find_trace_plans(const Trace& trace, const SimulationConfig& job) {
  const JobTrace in_job(trace, job);
  TracePlans found;
  found.file.trace = trace.facts.name;
  found.file.solver = "search";
  found.file.alignment = trace.facts.alignment;
  found.file.budget_bytes = job.budget_bytes;
  PlannerConfig planner = job.planner;
  planner.recorded_times_suffice = true;  // an uncertain plan is better than none
  const std::vector<Trace> steps = distinct_steps(*in_job);
  planner.follows_itself = steps.size() == 1;
  for (const Trace& step : steps) {
    const std::vector<RankedPlan> ranked = find_plans(step, job, planner);
    if (ranked.empty()) {
      ++found.failed;
      continue;
    }
    const StepPlan& plan = ranked.front().plan;
    found.file.steps.push_back({step_digest(step, step.facts.alignment), digested_operators(step),
                                weighted_outputs(step).size(), plan});
    found.overheads.push_back(ranked.front().overhead);
  }
  return found;
}

}  // namespace tidepool::remat
