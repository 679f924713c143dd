// TraceWriter: writes Tidepool's trace format, event by event, as a job makes it. See
// docs/trace-format.md. Not thread safe. Throws: std::runtime_error naming the file.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "remat/trace/text/text_file.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

// Writes one trace, compressed if the name of the file ends in ".gz".
class TraceWriter {
 public:
  TraceWriter(const std::string& path, const TraceFacts& facts);

  uint64_t root(size_t bytes, RootKind kind, uint32_t block = BlockChange::kNone);
  // Returns the number of the first output.
  uint64_t call(const OperatorCallEntry& entry);
  void block(BlockChange change);
  void release(uint64_t storage);
  void use(uint64_t storage, uint32_t stream);
  void role(uint64_t storage, RootKind role);
  void step();
  // Completes the trace, which otherwise counts as cut short.
  void finish();

 private:
  void write_line();
  // The number of a place, which is written down if it is new.
  uint32_t number_of(const char* place);

  TextFile file_;
  std::string line_;
  uint64_t storages_ = 0, events_ = 0, steps_ = 0;
  std::unordered_map<const char*, uint32_t> places_;  // their numbers
};

void write_trace(const Trace& trace, const std::string& path);

}  // namespace tidepool::remat
