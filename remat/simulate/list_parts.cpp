#include "remat/simulate/list_parts.h"

#include <algorithm>
#include <vector>

#include "allocator/base/check.h"
#include "remat/list_operators.h"

namespace tidepool::remat {
namespace {

// Lists: how many elements an operator's lists have, and how many lists it writes and reads. What
// it reads behind these is single tensors, such as a factor for all elements.
struct Lists {
  size_t elements;
  size_t written;
  size_t read;
};
constexpr Lists kWhole{1, 1, 1};  // one element, which is all of the operator

class Splitter {
 public:
  Splitter(const Trace& trace, size_t most_bytes)
      : trace_(trace), most_bytes_(most_bytes), builder_(trace.facts) {}

  Trace run() {
    for (const TraceEvent& event : trace_.events) add(event);
    return builder_.take();
  }

 private:
  void add(const TraceEvent& event) {
    switch (event.kind) {
      case EventKind::kRoot:
        builder_.root(trace_.storages[event.index].bytes, trace_.storages[event.index].kind);
        break;
      case EventKind::kOperator:
        add_operator(trace_.operators[event.index]);
        break;
      case EventKind::kRelease:
        builder_.release(event.index);
        break;
      case EventKind::kUse:
        builder_.use(event.index, event.stream);
        break;
      case EventKind::kRole:
        builder_.role(event.index, event.role);
        break;
      case EventKind::kStep:
        builder_.step();
        break;
      case EventKind::kBlock:
        TIDEPOOL_CHECK(false, "a trace with blocks is not split");
    }
  }

  size_t bytes(StorageIndex storage) const { return trace_.storages[number(storage)].bytes; }

  // Whether the operator's written storages are `lists` lists of tensors of the same sizes.
  bool repeats(const TraceOperator& op, size_t lists) const {
    const auto writes = trace_.writes(op);
    if (lists == 0 || writes.size() % lists != 0) return false;
    const size_t period = writes.size() / lists;
    for (size_t k = period; k < writes.size(); ++k) {
      if (bytes(writes[k].storage) != bytes(writes[k - period].storage)) return false;
    }
    return true;
  }

  std::optional<Lists> lists_of(const TraceOperator& op) const {
    const ListOperator kind = list_operator_named(trace_.names[op.name]);
    Lists lists{0, 0, 0};
    if (kind == ListOperator::kForeach) {
      lists.elements = op.outputs > 0 ? op.outputs : op.writes;
      if (op.outputs > 0 && op.writes > 0) return std::nullopt;
      lists.written = op.outputs > 0 ? 0 : 1;
      // Behind its lists it reads one tensor at most; more than that are lists whose elements share
      // storages.
      if (lists.elements > 0 && op.reads % lists.elements > 1) return std::nullopt;
    } else if (kind == ListOperator::kFused) {
      // Parameters, gradients and up to three lists of an optimizer's state.
      constexpr size_t kMostLists = 5;
      lists.written = kMostLists;
      while (lists.written > 0 && !repeats(op, lists.written)) --lists.written;
      if (lists.written > 0) lists.elements = op.writes / lists.written;
    }
    if (lists.elements < 2) return std::nullopt;
    lists.read = op.reads / lists.elements;
    return lists;
  }

  void add_operator(const TraceOperator& op) {
    const std::optional<Lists> lists = lists_of(op);
    if (!lists) return add_part(op, kWhole, 0, 1, op.cost_ns);
    const auto writes = trace_.writes(op);
    const auto reads = trace_.reads(op);
    std::vector<size_t> element_bytes(lists->elements);
    for (size_t k = 0; k < lists->elements; ++k) {
      for (size_t n = 0; n < lists->written; ++n) {
        element_bytes[k] += bytes(writes[n * lists->elements + k].storage);
      }
      for (size_t n = 0; n < lists->read; ++n) {
        element_bytes[k] += bytes(reads[n * lists->elements + k]);
      }
    }
    const std::vector<size_t> ends = list_part_ends(element_bytes, most_bytes_);
    if (ends.empty()) return add_part(op, kWhole, 0, 1, op.cost_ns);
    double all = 0;
    for (const size_t each : element_bytes) all += static_cast<double>(each);
    uint64_t left_ns = op.cost_ns;
    size_t begin = 0;
    for (const size_t end : ends) {
      double part = 0;
      for (size_t k = begin; k < end; ++k) part += static_cast<double>(element_bytes[k]);
      const auto share_ns = static_cast<uint64_t>(static_cast<double>(op.cost_ns) * part / all);
      const uint64_t ns = end == lists->elements ? left_ns : std::min(left_ns, share_ns);
      add_part(op, *lists, begin, end, ns);
      left_ns -= ns;
      begin = end;
    }
  }

  // Adds the operator, on the elements from `begin` to `end` of its lists.
  void add_part(const TraceOperator& op, const Lists& lists, size_t begin, size_t end,
                uint64_t ns) {
    writes_.clear();
    reads_.clear();
    output_bytes_.clear();
    const auto belongs = [&](size_t place) {
      const size_t element = place % lists.elements;
      return begin <= element && element < end;
    };
    const auto writes = trace_.writes(op);
    for (size_t k = 0; k < writes.size(); ++k) {
      if (belongs(k)) writes_.push_back(writes[k]);
    }
    const auto reads = trace_.reads(op);
    for (size_t k = 0; k < reads.size(); ++k) {
      const bool single = k >= lists.read * lists.elements;
      if (single || belongs(k)) reads_.push_back(number(reads[k]));
    }
    const auto outputs = trace_.outputs(op);
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (belongs(k)) output_bytes_.push_back(bytes(outputs[k]));
    }
    builder_.call({trace_.names[op.name], ns, reads_, writes_, output_bytes_, op.workspace_bytes,
                   op.site, op.stream, op.draws, op.recordable});
  }

  const Trace& trace_;
  const size_t most_bytes_;
  TraceBuilder builder_;
  std::vector<TraceWrite> writes_;
  std::vector<uint64_t> reads_;
  std::vector<size_t> output_bytes_;
};

}  // namespace

Trace with_list_parts(const Trace& trace, size_t most_bytes) {
  if (trace.facts.blocks) return trace;
  return Splitter(trace, most_bytes).run();
}

JobTrace::JobTrace(const Trace& trace, const SimulationConfig& config) : whole_(trace) {
  if (config.tier.capacity_bytes == 0 || !config.offloads_roots) return;
  parts_ = with_list_parts(trace, config.budget_bytes / kListShare);
}

}  // namespace tidepool::remat
