#include "remat/simulate/list_parts.h"

#include <algorithm>
#include <vector>

#include "remat/lineage/list_operators.h"
#include "remat/trace/live_bytes.h"

namespace tidepool::remat {
namespace {

// Lists: how many elements an operator's lists have, and how many lists it writes and reads. What
// it reads behind these is single tensors, such as a factor for all elements.
struct Lists {
  ListOperator kind;
  size_t elements;
  size_t written;
  size_t read;
};
constexpr Lists kWhole{ListOperator::kNone, 1, 1, 1};  // one element, which is all of the operator

class Splitter {
 public:
  Splitter(const Trace& trace, size_t budget_bytes, bool offloads_roots)
      : trace_(trace),
        budget_bytes_(budget_bytes),
        offloads_roots_(offloads_roots),
        live_(trace),
        builder_(trace.facts) {}

  Trace run() {
    for (const TraceEvent& event : trace_.events) add(event);
    return builder_.take();
  }

 private:
  void add(const TraceEvent& event) {
    switch (event.kind) {
      case EventKind::kRoot: {
        const TraceStorage& root = trace_.storages[event.index];
        builder_.root(root.bytes, root.kind, root.block);
        live_.begin(static_cast<StorageIndex>(event.index));
        break;
      }
      case EventKind::kOperator:
        add_operator(trace_.operators[event.index]);
        break;
      case EventKind::kRelease:
        builder_.release(event.index);
        live_.end(static_cast<StorageIndex>(event.index));
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
        builder_.block(trace_.block_changes[event.index]);
        live_.change(trace_.block_changes[event.index]);
        break;
    }
  }

  // Whether it can be seen in which part each block is allocated: they are the results'.
  bool knows_blocks(const TraceOperator& op) const {
    if (!trace_.facts.blocks) return true;
    const auto changes = trace_.changes(op);
    const auto outputs = trace_.outputs(op);
    const size_t arguments = trace_.arguments(op).size();
    return (arguments == 0 || arguments == op.writes + op.reads) &&
           std::equal(changes.begin(), changes.end(), outputs.begin(), outputs.end(),
                      [&](const BlockChange& change, StorageIndex output) {
                        return change.bytes > 0 &&
                               change.block == trace_.storages[number(output)].block;
                      });
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
    Lists lists{list_operator_named(trace_.names[op.name]), 0, 0, 0};
    if (lists.kind == ListOperator::kForeach) {
      lists.elements = op.outputs > 0 ? op.outputs : op.writes;
      if (op.outputs > 0 && op.writes > 0) return std::nullopt;
      lists.written = op.outputs > 0 ? 0 : 1;
      // Behind its lists it reads one tensor at most; more than that are lists whose elements share
      // storages.
      if (lists.elements > 0 && op.reads % lists.elements > 1) return std::nullopt;
    } else if (lists.kind == ListOperator::kFused) {
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
    for (const StorageIndex output : trace_.outputs(op)) live_.begin(output);
    for (const BlockChange& change : trace_.changes(op)) live_.change(change);
    const std::optional<Lists> lists = lists_of(op);
    if (!lists || !knows_blocks(op)) return add_part(op, kWhole, 0, 1, op.cost_ns);
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
    const std::vector<size_t> ends = list_part_ends(
        element_bytes, list_cut(lists->kind, budget_bytes_, live_.bytes(), offloads_roots_));
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
    output_blocks_.clear();
    changes_.clear();
    arguments_.clear();
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
      if (!belongs(k)) continue;
      output_bytes_.push_back(bytes(outputs[k]));
      if (trace_.facts.blocks) {
        output_blocks_.push_back(trace_.storages[number(outputs[k])].block);
      }
    }
    const auto changes = trace_.changes(op);
    for (size_t k = 0; k < changes.size(); ++k) {
      if (belongs(k)) changes_.push_back(changes[k]);
    }
    const auto arguments = trace_.arguments(op);
    const size_t in_lists = (lists.written + lists.read) * lists.elements;
    for (size_t k = 0; k < arguments.size(); ++k) {
      if (k >= in_lists || belongs(k)) arguments_.push_back(arguments[k]);
    }
    builder_.call({trace_.names[op.name], ns, reads_, writes_, output_bytes_, op.workspace_bytes,
                   op.site, op.stream, op.draws, op.recordable, changes_, output_blocks_,
                   arguments_});
  }

  const Trace& trace_;
  const size_t budget_bytes_;
  const bool offloads_roots_;
  LiveBytes live_;
  TraceBuilder builder_;
  std::vector<TraceWrite> writes_;
  std::vector<uint64_t> reads_;
  std::vector<size_t> output_bytes_;
  std::vector<uint32_t> output_blocks_;
  std::vector<BlockChange> changes_;
  std::vector<TraceArgument> arguments_;
};

}  // namespace

Trace with_list_parts(const Trace& trace, size_t budget_bytes, bool offloads_roots) {
  return Splitter(trace, budget_bytes, offloads_roots).run();
}

JobTrace::JobTrace(const Trace& trace, const SimulationConfig& config) : whole_(trace) {
  const bool offloads_roots = config.tier.capacity_bytes > 0 && config.offloads_roots;
  if (std::none_of(trace.names.begin(), trace.names.end(), is_list_operator)) return;
  parts_ = with_list_parts(trace, config.budget_bytes, offloads_roots);
}

}  // namespace tidepool::remat
