// Runs: what tidepool-replay computes: one simulation for each policy and budget, several at a
// time.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "remat/plan/simulator.h"
#include "remat/replay/options.h"
#include "remat/trace/trace_peak.h"

namespace tidepool::plan {

// One point: the question and the answer.
struct Run {
  std::string trace;
  std::string policy;
  MemoryModel memory = MemoryModel::kPages;
  uint32_t iterations = 1;
  bool oracle = false;
  double ratio = 0;  // budget / peak of the unlimited run
  size_t budget_bytes = 0;
  std::optional<double> lower_bound;  // of the overhead; nothing: no schedule fits
  SimulationResult result;
};

// Reads a trace as the options say. Throws: TraceError, std::runtime_error.
Trace load_trace(const ReplayOptions& options, const std::string& path);

// The questions: policy by policy, each from the smallest budget up.
std::vector<Run> plan_runs(const ReplayOptions& options, const Trace& trace);

// Answers them all, `jobs` at a time; the order of the answers is that of the questions whatever
// the order of work. `progress` is called after each with how many are done, by one thread at a
// time. Throws: what simulate() throws, once no run is under way.
void execute_runs(const ReplayOptions& options, const Trace& trace, std::vector<Run>& runs,
                  const std::function<void(size_t done)>& progress);

}  // namespace tidepool::plan
