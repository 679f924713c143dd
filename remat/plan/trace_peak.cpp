#include "remat/plan/trace_peak.h"

#include <algorithm>

namespace tidepool::plan {
namespace {

class Counter {
 public:
  explicit Counter(const Trace& trace) : trace_(trace) {}

  void see(const TraceEvent& event) {
    const auto storage = static_cast<StorageIndex>(event.index);
    if (event.kind == EventKind::kRoot) {
      live_ += trace_.aligned_bytes(storage);
      roots_ += trace_.aligned_bytes(storage);
    } else if (event.kind == EventKind::kRelease) {
      live_ -= trace_.aligned_bytes(storage);
      if (is_root(storage)) roots_ -= trace_.aligned_bytes(storage);
    } else if (event.kind == EventKind::kOperator) {
      see_operator(trace_.operators[event.index]);
    }
    peak_.peak_bytes = std::max(peak_.peak_bytes, live_);
    peak_.floor_bytes = std::max(peak_.floor_bytes, roots_);
  }

  TracePeak result() {
    peak_.end_bytes = live_;
    return peak_;
  }

 private:
  bool is_root(StorageIndex storage) const { return trace_.storages[number(storage)].root; }

  void see_operator(const TraceOperator& op) {
    const size_t workspace = trace_.aligned(op.workspace_bytes);
    size_t least = roots_ + workspace;
    for (const StorageIndex read : trace_.reads(op)) {
      if (!is_root(read)) least += trace_.aligned_bytes(read);
    }
    for (const TraceWrite& write : trace_.writes(op)) {
      if (!is_root(write.storage)) least += trace_.aligned_bytes(write.storage);
    }
    for (const StorageIndex output : trace_.outputs(op)) {
      live_ += trace_.aligned_bytes(output);
      least += trace_.aligned_bytes(output);
    }
    peak_.peak_bytes = std::max(peak_.peak_bytes, live_ + workspace);
    peak_.floor_bytes = std::max(peak_.floor_bytes, least);
  }

  const Trace& trace_;
  size_t live_ = 0;
  size_t roots_ = 0;
  TracePeak peak_;
};

}  // namespace

TracePeak trace_peak(const Trace& trace) {
  Counter counter(trace);
  for (const TraceEvent& event : trace.events) counter.see(event);
  return counter.result();
}

}  // namespace tidepool::plan
