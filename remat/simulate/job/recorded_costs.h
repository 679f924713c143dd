// RecordedCosts: the costs that a trace has for a job's calls, for a job that makes the same calls
// again. With them the job's logical clock, and so each of its decisions, is that of the trace's
// simulation. The trace has to be uncompressed, and only its costs and prices are read. Not thread
// safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "remat/trace/trace.h"

namespace tidepool::remat {

// The name by which a trace notes that contents change unseen. It stands for no call.
inline constexpr std::string_view kCutName = "tidepool::cut";
inline bool is_cut(const Trace& trace, const TraceOperator& op) {
  return trace.names[op.name] == kCutName && op.outputs == 0;
}

class RecordedCosts {
 public:
  // Throws: std::runtime_error naming the file, and the line if that is broken.
  explicit RecordedCosts(const std::string& path);

  // Moves to the next call and returns its cost. Throws: std::runtime_error if the trace's next
  // call is of another operator, or if it has no more calls.
  uint64_t begin_call(std::string_view name);
  // The number, from 0, of the call that begin_call() moved to last.
  uint32_t call() const { return static_cast<uint32_t>(next_ - 1); }

  // The trace's facts, of which only the prices are filled in.
  const TraceFacts& facts() const { return facts_; }

 private:
  struct Call {
    std::string name;
    uint64_t cost_ns = 0;
  };

  void read_line(const std::string& line);

  const std::string path_;
  TraceFacts facts_;
  std::vector<Call> calls_;
  size_t next_ = 0;
};

}  // namespace tidepool::remat
