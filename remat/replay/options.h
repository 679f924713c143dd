// ReplayOptions: the command line of tidepool-replay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "remat/plan/search/gap_search.h"
#include "remat/simulate/memory/memory_model.h"
#include "remat/simulate/simulation.h"
#include "remat/trace/dtr_log.h"

namespace tidepool::remat {

enum class TraceFormat : uint8_t { kTidepool, kDtr };

struct ReplayOptions {
  std::vector<std::string> traces;
  TraceFormat format = TraceFormat::kTidepool;
  MemoryModel memory = MemoryModel::kPages;
  RoomWays ways = RoomWays::kAll;
  std::vector<std::string> policies = {"needed-cost"};
  std::vector<double> ratios;  // budgets / the trace's peak; if there are none, budget_bytes counts
  size_t budget_bytes = 0;
  bool grid = false;
  bool least_budget = false;  // look for the least budget instead
  bool oracle = false;
  bool evict_singly = false, partition = false, record_in_place = true, recompute = true;
  bool prefetches = true, offloads_roots = true;
  TierModel tier;
  uint32_t iterations = 1;
  PlannerConfig planner;
  bool json = false;
  std::optional<bool> end_resident;    // nothing if the format decides
  std::optional<bool> lineage_limits;  // nothing if the format decides
  DtrMutation mutation = DtrMutation::kCopy;
  size_t page_bytes = 0;                     // 0 stands for that of the trace's device
  std::optional<uint64_t> map_ns, drain_ns;  // nothing if the trace's count
  std::optional<double> copy_bytes_per_ns;   // likewise
  unsigned jobs = 0;               // runs at a time; 0 stands for the number of processors
  std::string log_path;            // the file for the work log of one run; empty for no log
  std::string history_path;        // that for the one with blocks
  std::string plan_path;           // the plan file that the job follows; empty for none
  std::string write_plan_path;     // look for plans instead, and write this file
  bool graph = false;              // write the steps as graphs instead, for solvers
  double graph_seconds = 0;        // of the search in these graphs; 0: as long as in jobs
  GapGoal goal;                    // of the search in these graphs
  std::string energy_path;         // the table of what operators take; empty: nothing takes any
  std::string csv_path, svg_path;  // a grid's files; empty for names like that of the trace
  bool help = false;
  bool list_policies = false;
};

// The policy that `--policy default` stands for, as in jobs.
inline constexpr const char* kDefaultPolicy = "planned";

// UsageError: its message tells a user what is wrong with the command line.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Reads the arguments that follow the program's name. Throws: UsageError.
ReplayOptions parse_options(std::span<const std::string> arguments);

extern const char* const kReplayHelp;

}  // namespace tidepool::remat
