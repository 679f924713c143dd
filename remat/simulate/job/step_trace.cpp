#include "remat/simulate/job/step_trace.h"

#include <algorithm>
#include <vector>

#include "allocator/base/check.h"

namespace tidepool::remat {
namespace {

constexpr uint64_t kNone = UINT64_MAX;

TraceFacts without_blocks(TraceFacts facts) {
  facts.blocks = false;
  return facts;
}

class Copier {
 public:
  explicit Copier(const Trace& trace)
      : trace_(trace),
        builder_(without_blocks(trace.facts)),
        number_(trace.storages.size(), kNone),
        alive_(number_.size()),
        roles_(number_.size()) {}

  // Notes an event before the step.
  void pass(const TraceEvent& event) {
    if (event.kind == EventKind::kRoot) {
      alive_[event.index] = true;
      roles_[event.index] = trace_.storages[event.index].kind;
    }
    if (event.kind == EventKind::kRole) roles_[event.index] = event.role;
    if (event.kind == EventKind::kRelease) alive_[event.index] = false;
    if (event.kind != EventKind::kOperator) return;
    for (const StorageIndex output : trace_.outputs(trace_.operators[event.index])) {
      alive_[number(output)] = true;
    }
  }

  void begin() {
    for (uint32_t index = 0; index < alive_.size(); ++index) {
      if (alive_[index]) add_root(index, roles_[index]);
    }
  }

  void copy(const TraceEvent& event) {
    switch (event.kind) {
      case EventKind::kRoot:
        if (!is_copied(event.index)) add_root(event.index, trace_.storages[event.index].kind);
        break;
      case EventKind::kOperator:
        copy_operator(trace_.operators[event.index]);
        break;
      case EventKind::kRelease:
        builder_.release(number_[event.index]);
        break;
      case EventKind::kUse:
        builder_.use(number_[event.index], event.stream);
        break;
      case EventKind::kRole:
        builder_.role(number_[event.index], event.role);
        break;
      case EventKind::kStep:
        break;  // the new trace has one mark, at its end
      case EventKind::kBlock:
        break;  // blocks are left out: a fresh process lays its memory out anew
    }
  }

  TraceBuilder& builder() { return builder_; }

 private:
  // Whether the new trace has this storage, and it lives.
  bool is_copied(uint32_t index) const {
    return number_[index] != kNone && builder_.is_alive(number_[index]);
  }

  void add_root(uint32_t index, RootKind role) {
    number_[index] = builder_.root(trace_.storages[index].bytes, role);
  }

  void copy_operator(const TraceOperator& op) {
    std::vector<uint64_t> reads;
    std::vector<TraceWrite> writes;
    std::vector<size_t> outputs;
    for (const StorageIndex read : trace_.reads(op)) reads.push_back(number_[number(read)]);
    for (const TraceWrite& write : trace_.writes(op)) {
      writes.push_back({static_cast<StorageIndex>(number_[number(write.storage)]), write.access});
    }
    for (const StorageIndex output : trace_.outputs(op)) {
      outputs.push_back(trace_.storages[number(output)].bytes);
      const auto index = static_cast<uint32_t>(output);
      if (is_copied(index)) builder_.release(number_[index]);
    }
    OperatorCallEntry entry;
    entry.name = trace_.names[op.name];
    entry.cost_ns = op.cost_ns;
    entry.reads = reads;
    entry.writes = writes;
    entry.output_bytes = outputs;
    entry.workspace_bytes = op.workspace_bytes;
    entry.site = op.site;
    entry.stream = op.stream;
    entry.draws = op.draws;
    entry.recordable = op.recordable;
    uint64_t made = builder_.call(entry);
    for (const StorageIndex output : trace_.outputs(op)) number_[number(output)] = made++;
  }

  const Trace& trace_;
  TraceBuilder builder_;
  std::vector<uint64_t> number_;  // by index in the old trace: the index in the new one
  std::vector<bool> alive_;       // which storages live when the step begins
  std::vector<RootKind> roles_;   // their roles then
};

}  // namespace

Trace step_trace(const Trace& trace, size_t begin, size_t end) {
  TIDEPOOL_CHECK(begin <= end && end <= trace.events.size(), "events %zu to %zu of %zu", begin, end,
                 trace.events.size());
  Copier copier(trace);
  for (size_t k = 0; k < begin; ++k) copier.pass(trace.events[k]);
  copier.begin();
  for (size_t k = begin; k < end; ++k) copier.copy(trace.events[k]);
  copier.builder().step();
  return copier.builder().take();
}

Trace twice(const Trace& trace, size_t end) {
  TIDEPOOL_CHECK(end <= trace.events.size(), "%zu events of %zu", end, trace.events.size());
  Copier copier(trace);
  for (size_t pass = 0; pass < 2; ++pass) {
    for (size_t k = 0; k < end; ++k) copier.copy(trace.events[k]);
    copier.builder().step();
  }
  return copier.builder().take();
}

size_t step_begin(const Trace& trace, size_t end) {
  size_t begin = end > 0 ? end - 1 : 0;
  if (end == trace.events.size()) begin = std::min(begin, last_step_end(trace));
  while (begin > 0 && trace.events[begin - 1].kind != EventKind::kStep) --begin;
  return begin;
}

size_t last_step_end(const Trace& trace) {
  for (size_t k = trace.events.size(); k-- > 0;) {
    if (trace.events[k].kind == EventKind::kOperator) {
      while (k > 0 && trace.events[k].kind != EventKind::kStep) --k;
      const bool after_mark = trace.events[k].kind == EventKind::kStep;
      return after_mark ? k : trace.events.size();
    }
    if (trace.events[k].kind == EventKind::kStep) break;
  }
  return trace.events.size();
}

}  // namespace tidepool::remat
