// Traces of jobs, in both formats: refused by TraceError with a reason, or a trace whose events
// name only what is alive, and which any policy can be tried on: the simulation keeps its
// invariants, its budget, and the time that the operators take.
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "allocator/base/check.h"
#include "remat/plan/simulator.h"
#include "remat/trace/dtr_log.h"
#include "remat/trace/trace_format.h"
#include "remat/trace/trace_peak.h"

namespace {

using namespace tidepool::remat;  // NOLINT: a program of its own

class Liveness {
 public:
  explicit Liveness(const Trace& trace) : trace_(trace), alive_(trace.storages.size()) {}

  void see(const TraceEvent& event) {
    if (event.kind == EventKind::kOperator) {
      const TraceOperator& op = trace_.operators.at(event.index);
      for (const StorageIndex read : trace_.reads(op)) need(number(read));
      for (const TraceWrite& write : trace_.writes(op)) need(number(write.storage));
      for (const TraceArgument& argument : trace_.arguments(op)) need(number(argument.storage));
      for (const BlockChange& change : trace_.changes(op)) see(change);
      for (const StorageIndex output : trace_.outputs(op)) start(number(output));
    } else if (event.kind == EventKind::kRoot) {
      start(event.index);
    } else if (event.kind == EventKind::kBlock) {
      see(trace_.block_changes.at(event.index));
    } else if (event.kind != EventKind::kStep) {
      need(event.index);
      if (event.kind == EventKind::kRelease) alive_[event.index] = false;
    }
  }
  size_t started() const { return next_; }

 private:
  void need(size_t storage) {
    TIDEPOOL_CHECK(storage < next_ && alive_[storage], "storage %zu is not alive", storage);
  }
  void start(size_t storage) {
    TIDEPOOL_CHECK(storage == next_, "storage %zu where %zu is next", storage, next_);
    if (trace_.facts.blocks) {
      const uint32_t block = trace_.storages[storage].block;
      TIDEPOOL_CHECK(block < free_blocks_.size() && free_blocks_[block], "block %u is taken",
                     block);
      free_blocks_[block] = false;
    }
    alive_[next_++] = true;
  }
  void see(const BlockChange& change) {
    if (change.bytes > 0) {
      TIDEPOOL_CHECK(change.block == free_blocks_.size(), "block %u is not next", change.block);
      free_blocks_.push_back(true);
      return;
    }
    TIDEPOOL_CHECK(change.block < free_blocks_.size() && free_blocks_[change.block],
                   "block %u is freed, but not there", change.block);
    free_blocks_[change.block] = false;
  }

  const Trace& trace_;
  std::vector<bool> alive_;
  std::vector<bool> free_blocks_;  // by number: allocated, and no storage's
  size_t next_ = 0;
};

void check(const Trace& trace) {
  Liveness liveness(trace);
  for (const TraceEvent& event : trace.events) liveness.see(event);
  TIDEPOOL_CHECK(liveness.started() == trace.storages.size(), "%zu storages of %zu appear",
                 liveness.started(), trace.storages.size());
  const TracePeak peak = trace_peak(trace);
  TIDEPOOL_CHECK(peak.end_bytes <= peak.peak_bytes, "%zu bytes at the end, %zu at the peak",
                 peak.end_bytes, peak.peak_bytes);
  constexpr size_t kMostBytes = size_t{1} << 40;
  if (peak.peak_bytes > kMostBytes) return;
  for (const size_t eighths : {4, 6, 8}) {
    SimulationConfig config;
    config.memory = MemoryModel::kExact;
    config.budget_bytes = peak.peak_bytes / 8 * eighths + peak.peak_bytes % 8;
    config.end_resident = true;
    config.check_invariants = true;
    const SimulationResult result = simulate(trace, config);
    const bool ok = result.status == SimulationStatus::kOk;
    TIDEPOOL_CHECK(result.peak_bytes <= config.budget_bytes, "%zu bytes held of %zu",
                   result.peak_bytes, config.budget_bytes);
    TIDEPOOL_CHECK(ok || eighths < 8 || peak.peak_bytes < 8, "refused although all fits: %s",
                   result.reason.c_str());
    TIDEPOOL_CHECK(!ok || result.compute_ns >= trace.baseline_ns(), "less compute than there is");
  }
}

template <typename Parser>
void read(const std::string& text, Parser parser) {
  std::istringstream lines(text);
  std::string line;
  try {
    while (std::getline(lines, line)) parser.add_line(line);
    check(parser.finish());
  } catch (const TraceError& error) {
    TIDEPOOL_CHECK(*error.what() != '\0', "refused without a reason");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read(text, TraceParser());
  read(text, DtrLogParser("log", DtrMutation::kCopy));
  read(text, DtrLogParser("log", DtrMutation::kInPlace));
  return 0;
}
