#include "remat/trace/trace_peak.h"

#include <algorithm>

#include "remat/lineage/list_operators.h"
#include "remat/trace/live_bytes.h"

namespace tidepool::remat {
namespace {

class Counter {
 public:
  explicit Counter(const Trace& trace) : trace_(trace), live_(trace) {}

  void see(const TraceEvent& event) {
    const auto storage = static_cast<StorageIndex>(event.index);
    if (event.kind == EventKind::kRoot) {
      live_.begin(storage);
      roots_ += trace_.aligned_bytes(storage);
    } else if (event.kind == EventKind::kBlock) {
      see(trace_.block_changes[event.index]);
    } else if (event.kind == EventKind::kRelease) {
      live_.end(storage);
      if (is_root(storage)) roots_ -= trace_.aligned_bytes(storage);
    } else if (event.kind == EventKind::kOperator) {
      see_operator(trace_.operators[event.index]);
    }
    note_peak(0);
    peak_.floor_bytes = std::max(peak_.floor_bytes, roots_);
  }

  TracePeak result() {
    peak_.end_bytes = live_.bytes();
    return peak_;
  }

 private:
  bool is_root(StorageIndex storage) const { return trace_.storages[number(storage)].root; }

  void note_peak(size_t workspace) {
    peak_.peak_bytes = std::max(peak_.peak_bytes, live_.bytes() + workspace);
  }
  void see(const BlockChange& change) {
    live_.change(change);
    note_peak(0);
  }

  void see_operator(const TraceOperator& op) {
    for (const BlockChange& change : trace_.changes(op)) see(change);
    const size_t workspace = trace_.facts.blocks ? 0 : trace_.aligned(op.workspace_bytes);
    size_t own = 0;  // of operands that are no roots, and of results
    for (const StorageIndex read : trace_.reads(op)) {
      if (!is_root(read)) own += trace_.aligned_bytes(read);
    }
    for (const TraceWrite& write : trace_.writes(op)) {
      if (!is_root(write.storage)) own += trace_.aligned_bytes(write.storage);
    }
    for (const StorageIndex output : trace_.outputs(op)) {
      live_.begin(output);
      own += trace_.aligned_bytes(output);
    }
    note_peak(workspace);
    // One on lists may run on parts of them, of which each takes next to nothing.
    const size_t least = is_list_operator(trace_.names[op.name]) ? 0 : own;
    peak_.floor_bytes = std::max(peak_.floor_bytes, roots_ + workspace + least);
  }

  const Trace& trace_;
  LiveBytes live_;
  size_t roots_ = 0;
  TracePeak peak_;
};

}  // namespace

TracePeak trace_peak(const Trace& trace) {
  Counter counter(trace);
  for (const TraceEvent& event : trace.events) counter.see(event);
  return counter.result();
}

}  // namespace tidepool::remat
