#include "allocator/trace_ring.h"

#include <fmt/format.h>

namespace tidepool {

namespace {

const char* name_of(TraceKind kind) {
  switch (kind) {
    case TraceKind::kAllocate: return "allocate";
    case TraceKind::kFree: return "free";
    case TraceKind::kEvict: return "evict";
    case TraceKind::kWindow: return "window";
    case TraceKind::kRemap: return "remap";
    case TraceKind::kMove: return "move";
    case TraceKind::kCommit: return "commit";
    case TraceKind::kGiveBack: return "give_back";
    case TraceKind::kOutOfMemory: return "out_of_memory";
  }
  return "?";
}

}  // namespace

std::vector<TraceEvent> TraceRing::events() const {
  std::vector<TraceEvent> result;
  if (events_.empty()) return result;
  uint64_t first = total_ > events_.size() ? total_ - events_.size() : 0;
  for (uint64_t number = first; number < total_; ++number) {
    result.push_back(events_[number % events_.size()]);
  }
  return result;
}

std::string TraceRing::text() const {
  std::string text;
  if (total_ > events_.size()) {
    text += fmt::format("({} earlier events are lost)\n", total_ - events_.size());
  }
  for (const TraceEvent& event : events()) {
    text += fmt::format("{} {} {:#x} {}\n", event.number, name_of(event.kind), event.address,
                        event.bytes);
  }
  return text;
}

}  // namespace tidepool
