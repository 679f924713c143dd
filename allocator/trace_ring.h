// TraceRing: the last events of an allocator, in memory taken once. Free when its capacity is 0:
// one predicted branch per event. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tidepool {

enum class TraceKind : uint8_t {
  kAllocate,
  kFree,
  kEvict,
  kWindow,
  kRemap,
  kMove,
  kCommit,
  kGiveBack,
  kOutOfMemory,
};

struct TraceEvent {
  uint64_t number = 0;  // counts all events since the start
  uintptr_t address = 0;
  size_t bytes = 0;
  TraceKind kind = TraceKind::kAllocate;
};

class TraceRing {
 public:
  explicit TraceRing(size_t capacity) : events_(capacity) {}

  void add(TraceKind kind, uintptr_t address, size_t bytes) {
    if (events_.empty()) [[likely]] return;
    events_[total_ % events_.size()] = {total_, address, bytes, kind};
    ++total_;
  }
  // Oldest first.
  std::vector<TraceEvent> events() const;
  // One line per event, oldest first; says how many were lost to the ring's size.
  std::string text() const;

 private:
  std::vector<TraceEvent> events_;
  uint64_t total_ = 0;
};

}  // namespace tidepool
