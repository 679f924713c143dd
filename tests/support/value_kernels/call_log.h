// CallLog: which operators ran through the value kernels and how often, how many operations of the
// stand-in device they made, what they could not treat; and, where a file is named, a line for
// every call with the hash that its outputs follow from. Calls that other kernels make have none:
// they may read what a kernel that did not run has not written.
// Thread safe, but those of other threads count for the call that is running.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>

namespace tidepool::value_kernels {

class CallLog {
 public:
  // Names the file to write a line for every call to, nested ones aside: the hash, the operator.
  // Throws: std::runtime_error where it cannot be made.
  void trace_to(const std::string& path);

  void count(const std::string& name, uint64_t hash, uint64_t operations, bool is_nested);
  // Names an operator with operands that have no plain contents.
  void note_untreated(const std::string& name);

  // A line for each operator: its name, its calls by programs, its calls by other kernels.
  std::string calls();
  std::string untreated();
  // Of all calls by programs.
  uint64_t operations();

 private:
  struct Counts {
    uint64_t outer = 0;
    uint64_t nested = 0;
  };

  std::mutex mutex_;
  std::map<std::string, Counts> counts_;
  std::map<std::string, uint64_t> untreated_;
  uint64_t operations_ = 0;
  std::FILE* trace_ = nullptr;
};

CallLog& call_log();

}  // namespace tidepool::value_kernels
