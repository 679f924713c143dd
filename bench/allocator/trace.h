// Trace: the requests of a recorded job in their order, by ids instead of addresses, so that any
// allocator can be asked the same; and its parser, for two kinds of logs with one request a line:
//   RMM's logging adaptor     Thread,Time,Action,Pointer,Size,Stream
//   PyTorch's snapshots       Device,Action,Address,Size,Stream (bench/snapshot_log.py makes them)
// Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "allocator/streams/stream_order.h"

namespace tidepool::bench {

struct TraceEvent {
  bool allocates = false;
  uint32_t block = 0;  // its number, counted by allocations
  size_t bytes = 0;
  StreamId stream = StreamId::kDefault;
};

struct Trace {
  std::string name;
  std::vector<TraceEvent> events;
  size_t blocks = 0;
  size_t streams = 1;
  size_t live_peak_bytes = 0;
  // Blocks freed whose allocation the log does not have: a snapshot keeps the newest entries only.
  size_t unknown_frees = 0;

  // Adds an event and keeps the sums.
  uint32_t allocate(size_t bytes, StreamId stream = StreamId::kDefault);
  void free(uint32_t block);

 private:
  size_t live_bytes_ = 0;
  std::vector<TraceEvent> allocations_;  // by block
};

// One trace per device that the log names. Throws: std::runtime_error "NAME:LINE: reason".
std::vector<Trace> parse_log(std::istream& log, const std::string& name);
std::vector<Trace> read_log(const std::string& path);

}  // namespace tidepool::bench
