// The log format of DTR's prototype (Kirisame et al. 2021), one JSON object a line, which is read
// as a trace.
// The log speaks of handles of tensors: what a trace calls a storage dies with the last handle on
// it or on one of its views. Constants live for ever. Views are no storages: the operator that
// makes one costs its time once, and is not run again when its storage is rematerialized (DTR does
// run it again). Everything before the line that says START is skipped. See docs/trace-format.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "remat/trace/trace.h"

namespace tidepool::remat {

// What a MUTATE entry does.
enum class DtrMutation : uint8_t {
  kCopy,     // it makes new storages, and the old ones lose a handle, as in DTR's simulator
  kInPlace,  // it writes the storages where they are
};

// Parses a log line by line. Not thread safe. After an exception it may only be destroyed.
class DtrLogParser {
 public:
  DtrLogParser(std::string name, DtrMutation mutation);

  // Throws: TraceError with the reason, without file and line.
  void add_line(std::string_view line);
  // Throws: TraceError if the log is not complete.
  Trace finish();

 private:
  using Json = nlohmann::json;

  // A storage as the log sees it.
  struct Stored {
    uint64_t handles = 0;
    bool constant = false;
  };
  // A CALL whose results have not all been described yet.
  struct Call {
    std::string name;
    uint64_t cost_ns = 0;
    std::vector<std::string> results;
    std::vector<uint64_t> args;  // storages
    // Of the results described so far; ALIAS follows MEMORY. Of which argument it is a view.
    std::vector<size_t> bytes;
    std::vector<std::optional<size_t>> views;
  };

  void instruct(const std::string& instruction, const Json& line);
  void constant(const Json& line);
  void memory(const Json& line);
  void call(const Json& line);
  void alias(const Json& line);
  void mutate(const Json& line);
  void mutate_by_copy(OperatorCallEntry entry, const std::vector<std::string>& written);
  void mutate_in_place(OperatorCallEntry entry, const std::vector<std::string>& written);
  void copy(const Json& line);
  void copy_from(const Json& line);
  void release(const Json& line);

  void finish_call();
  void add_handle(const std::string& name, uint64_t storage);
  void drop_handle(uint64_t storage);
  uint64_t storage_of(const std::string& name) const;
  void check_new(const std::string& name) const;
  Stored& stored(uint64_t storage);

  TraceBuilder builder_;
  const DtrMutation mutation_;
  bool started_ = false;
  std::map<std::string, uint64_t, std::less<>> handles_;  // name -> storage
  std::vector<Stored> stored_;                            // by storage
  std::optional<std::string> constant_;                   // the one whose MEMORY comes next
  std::optional<Call> call_;
};

// Throws: TraceError "FILE:LINE: reason"; std::runtime_error if the file cannot be read.
Trace read_dtr_log(const std::string& path, DtrMutation mutation);

}  // namespace tidepool::remat
