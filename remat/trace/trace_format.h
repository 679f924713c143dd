// Reads Tidepool's trace format: JSON lines; what is broken is refused. See
// docs/trace-format.md. trace_writer.h writes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "remat/trace/text/text_lines.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

// Parses a trace line by line. Not thread safe. After an exception it may only be destroyed.
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
  void read_blocks(const Json& list);
  void read_arguments(const Json& list);

  std::optional<TraceBuilder> builder_;
  bool ended_ = false;
  uint64_t events_ = 0;
  uint64_t steps_ = 0;
  uint64_t places_ = 0;
  // Lists of the operator that is being read, which are members so that their memory is used again.
  std::vector<uint64_t> reads_;
  std::vector<size_t> output_bytes_;
  std::vector<TraceWrite> writes_;
  std::vector<TraceArgument> arguments_;
  std::vector<BlockChange> block_changes_;
  std::vector<uint32_t> output_blocks_;
};

// Reads a whole trace. Throws: TraceError "FILE:LINE: reason"; std::runtime_error if the file
// cannot be read.
Trace read_trace(const std::string& path);

}  // namespace tidepool::remat
