// ReplayOptions: the command line of tidepool-replay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "remat/simulate/memory_model.h"
#include "remat/simulate/simulation.h"
#include "remat/trace/dtr_log.h"

namespace tidepool::plan {

enum class TraceFormat : uint8_t { kTidepool, kDtr };

struct ReplayOptions {
  std::vector<std::string> traces;
  TraceFormat format = TraceFormat::kTidepool;
  MemoryModel memory = MemoryModel::kPages;
  std::vector<std::string> policies = {"needed-cost"};
  std::vector<double> ratios;  // of the trace's peak; empty: budget_bytes is given
  size_t budget_bytes = 0;
  bool grid = false;
  bool oracle = false;
  bool evict_singly = false, partition = false, record_in_place = true, recompute = true;
  TierModel tier;
  uint32_t iterations = 1;
  PlannerConfig planner;
  bool json = false;
  std::optional<bool> end_resident;    // not given: by the format
  std::optional<bool> lineage_limits;  // likewise
  DtrMutation mutation = DtrMutation::kCopy;
  size_t page_bytes = 0;           // 0: by the trace's device
  std::optional<uint64_t> map_ns;  // not given: the trace's
  unsigned jobs = 0;               // 0: as many as there are processors
  std::string log_path;            // of the one run; empty: none
  std::string csv_path, svg_path;  // of a grid; empty: named after the trace
  bool help = false;
  bool list_policies = false;
};

// The policy that `--policy default` stands for, as in jobs.
inline constexpr const char* kDefaultPolicy = "planned";

// What is wrong with a command line, for its user.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// `arguments`: without the program's name. Throws: UsageError.
ReplayOptions parse_options(std::span<const std::string> arguments);

extern const char* const kReplayHelp;

}  // namespace tidepool::plan
