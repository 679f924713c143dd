#include "remat/trace/trace_peak.h"

#include <algorithm>
#include <vector>

#include "remat/lineage/list_operators.h"

namespace tidepool::remat {
namespace {

class Counter {
 public:
  explicit Counter(const Trace& trace) : trace_(trace) {}

  void see(const TraceEvent& event) {
    const auto storage = static_cast<StorageIndex>(event.index);
    if (event.kind == EventKind::kRoot) {
      start(storage);
      roots_ += trace_.aligned_bytes(storage);
    } else if (event.kind == EventKind::kBlock) {
      see(trace_.block_changes[event.index]);
    } else if (event.kind == EventKind::kRelease) {
      end(storage);
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

  // In a trace with blocks these are what is held, and storages lie in them.
  void start(StorageIndex storage) {
    if (!trace_.facts.blocks) live_ += trace_.aligned_bytes(storage);
  }
  void end(StorageIndex storage) {
    live_ -= trace_.facts.blocks ? blocks_[trace_.storages[number(storage)].block]
                                 : trace_.aligned_bytes(storage);
  }
  void see(const BlockChange& change) {
    if (change.bytes == 0) {
      live_ -= blocks_[change.block];
      return;
    }
    blocks_.push_back(trace_.aligned(change.bytes));
    live_ += blocks_.back();
    peak_.peak_bytes = std::max(peak_.peak_bytes, live_);
  }

  void see_operator(const TraceOperator& op) {
    for (const BlockChange& change : trace_.changes(op)) see(change);
    const size_t workspace = trace_.facts.blocks ? 0 : trace_.aligned(op.workspace_bytes);
    size_t least = roots_ + workspace;
    // One on lists may run on parts of them, of which each takes next to nothing.
    const bool is_whole = list_operator_named(trace_.names[op.name]) == ListOperator::kNone;
    for (const StorageIndex read : trace_.reads(op)) {
      if (is_whole && !is_root(read)) least += trace_.aligned_bytes(read);
    }
    for (const TraceWrite& write : trace_.writes(op)) {
      if (is_whole && !is_root(write.storage)) least += trace_.aligned_bytes(write.storage);
    }
    for (const StorageIndex output : trace_.outputs(op)) {
      start(output);
      if (is_whole) least += trace_.aligned_bytes(output);
    }
    peak_.peak_bytes = std::max(peak_.peak_bytes, live_ + workspace);
    peak_.floor_bytes = std::max(peak_.floor_bytes, least);
  }

  const Trace& trace_;
  std::vector<size_t> blocks_;  // bytes, by number
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

}  // namespace tidepool::remat
