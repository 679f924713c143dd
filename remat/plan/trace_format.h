// Tidepool's trace format, version 1: JSON lines. A reader that refuses what is broken, and the
// writer. See docs/trace-format.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "remat/plan/text_lines.h"
#include "remat/plan/trace.h"

namespace tidepool::plan {

inline constexpr uint64_t kTraceVersion = 1;
inline constexpr uint64_t kMostStreams = 0xffff;  // greatest number of a stream

// Takes a trace line by line. Not thread safe. After an exception only destruction is left.
class TraceParser {
 public:
  // Throws: TraceError with the reason, without file and line.
  void add_line(std::string_view line);
  // Throws: TraceError if the trace is not complete.
  Trace finish();

 private:
  using Json = nlohmann::json;

  void add_header(const Json& line);
  void add_event(const Json& line);
  void add_root(const Json& line);
  void add_operator(const Json& line);
  void read_outputs(const Json& line);
  void read_writes(const Json& line);

  std::optional<TraceBuilder> builder_;
  bool ended_ = false;
  uint64_t events_ = 0;
  uint64_t steps_ = 0;
  // Of the operator being read; kept for their memory.
  std::vector<uint64_t> reads_;
  std::vector<size_t> output_bytes_;
  std::vector<TraceWrite> writes_;
};

// Reads all of it. Throws: TraceError "FILE:LINE: reason"; std::runtime_error if the file cannot be
// read.
Trace read_trace(const std::string& path);

// Writes a trace event by event, as a job makes it; compressed where the name ends in ".gz".
// Throws: std::runtime_error naming the file.
class TraceWriter {
 public:
  TraceWriter(const std::string& path, const TraceFacts& facts);

  uint64_t root(size_t bytes, RootKind kind);
  // Returns the number of the first output.
  uint64_t call(const OperatorCallEntry& entry);
  void release(uint64_t storage);
  void use(uint64_t storage, uint32_t stream);
  void step();
  // Without it the trace counts as cut short.
  void finish();

 private:
  void write_line();

  TextFile file_;
  std::string line_;
  uint64_t storages_ = 0, events_ = 0, steps_ = 0;
};

void write_trace(const Trace& trace, const std::string& path);

}  // namespace tidepool::plan
