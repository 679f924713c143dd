// OperationLog: what was enqueued, recorded and waited for, newest entries only.
// Not thread safe: the machine's lock is held.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "tests/support/fake_cuda/core/call_book.h"
#include "tests/support/fake_cuda/core/vector_clock.h"

namespace tidepool::fake_cuda {

struct LogEntry {
  uint64_t sequence = 0;
  Call call = Call::kOther;
  const char* name = "";  // of the function or kernel; never freed
  StreamId stream{};
  Tick tick = 0;       // the stream's newest operation afterwards
  uint64_t event = 0;  // 0: none
  uintptr_t address = 0;
  uintptr_t source = 0;
  size_t bytes = 0;
};

std::string describe(const LogEntry& entry);

class OperationLog {
 public:
  explicit OperationLog(size_t capacity) : capacity_(capacity) {}

  const LogEntry& add(LogEntry entry) {
    entry.sequence = ++sequence_;
    last_ = std::move(entry);
    if (capacity_ == 0) return last_;
    if (entries_.size() == capacity_) entries_.pop_front();
    entries_.push_back(last_);
    return last_;
  }
  const std::deque<LogEntry>& entries() const { return entries_; }

 private:
  const size_t capacity_;
  uint64_t sequence_ = 0;
  LogEntry last_;
  std::deque<LogEntry> entries_;
};

}  // namespace tidepool::fake_cuda
