#include "tests/support/value_kernels/call_log.h"

#include <fmt/format.h>

#include <cinttypes>
#include <stdexcept>

namespace tidepool::value_kernels {

void CallLog::trace_to(const std::string& path) {
  std::lock_guard lock(mutex_);
  trace_ = std::fopen(path.c_str(), "w");
  if (trace_ == nullptr) throw std::runtime_error("value kernels: cannot write " + path);
  std::setvbuf(trace_, nullptr, _IOLBF, 0);  // jobs may end by _exit
}

void CallLog::count(const std::string& name, uint64_t hash, uint64_t operations, bool is_nested) {
  std::lock_guard lock(mutex_);
  Counts& counts = counts_[name];
  ++(is_nested ? counts.nested : counts.outer);
  if (is_nested) return;
  operations_ += operations;
  if (trace_ != nullptr) std::fprintf(trace_, "%016" PRIx64 " %s\n", hash, name.c_str());
}

void CallLog::note_untreated(const std::string& name) {
  std::lock_guard lock(mutex_);
  ++untreated_[name];
}

std::string CallLog::calls() {
  std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [name, counts] : counts_) {
    text += fmt::format("{} {} {}\n", name, counts.outer, counts.nested);
  }
  return text;
}

std::string CallLog::untreated() {
  std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [name, count] : untreated_) text += fmt::format("{} {}\n", name, count);
  return text;
}

uint64_t CallLog::operations() {
  std::lock_guard lock(mutex_);
  return operations_;
}

CallLog& call_log() {
  static auto* log = new CallLog;  // used by threads that outlive statics
  return *log;
}

}  // namespace tidepool::value_kernels
