// RecordedCosts: what a trace says that each of a job's calls costs, for a job that does the same
// again: its logical clock, and with it every decision, is then that of the trace's simulation.
// Reads only the costs, of an uncompressed trace. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "remat/trace/trace.h"

namespace tidepool::plan {

// What stands in a trace for contents that change unseen; no call.
inline constexpr std::string_view kCutName = "tidepool::cut";

class RecordedCosts {
 public:
  // Throws: std::runtime_error naming the file, and the line if that is broken.
  explicit RecordedCosts(const std::string& path);

  // The next call begins; returns its cost. Throws: std::runtime_error if the trace has another
  // operator there, or none.
  uint64_t begin_call(std::string_view name);
  // The number of the call that has begun last, from 0.
  uint32_t call() const { return static_cast<uint32_t>(next_ - 1); }

  // Only prices are filled in.
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

}  // namespace tidepool::plan
