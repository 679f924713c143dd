// JobEvents: what a job did, event by event, as an observer heard it. The lists are quickly
// written, and play() tells what is in them to whatever makes a trace (TraceWriter, TraceBuilder).
// Plain data. Storages are numbered from 0 in the order of the events that make them, over all
// lists of a recording.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "remat/lineage/container_bytes.h"
#include "remat/lineage/lineage.h"
#include "remat/record/merged_operands.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

struct JobEvent {
  EventKind kind = EventKind::kStep;
  RootKind role = RootKind::kOther;  // for kRoot and kRole
  bool draws = false;
  bool recordable = true;
  uint32_t storage = 0;  // for kRelease, kUse and kRole
  uint32_t stream = 0;
  uint32_t operands = 0, outputs = 0;  // how many the operator has of those in the lists
  const RecordType* type = nullptr;
  uint64_t cost_ns = 0;
  uint64_t site = 0;
  const char* place = nullptr;          // as ObservedCall has it
  size_t bytes = 0;                     // of a root, or of an operator's workspace
  uint32_t block = BlockChange::kNone;  // where a root lies
  uint32_t changes = 0;                 // how many changes of blocks it has of those in the list
};

struct JobEvents {
  std::vector<JobEvent> events;
  std::vector<MergedOperands::Operand> operands;  // of all operators, in their order
  std::vector<size_t> output_bytes;               // of all operators, in their order
  std::vector<uint32_t> output_blocks;            // the same, or empty without blocks
  std::vector<BlockChange> changes;               // of operators and of kBlock events

  size_t bookkeeping_bytes() const {
    return bytes_of(events) + bytes_of(operands) + bytes_of(output_bytes) +
           bytes_of(output_blocks) + bytes_of(changes);
  }
  void clear() {
    events.clear();
    operands.clear();
    output_bytes.clear();
    output_blocks.clear();
    changes.clear();
  }
};

// Tells `sink` of all events. `exactly`: with the arguments as they were, for a trace with blocks.
// Throws: what `sink` throws.
template <typename Sink>
void play(const JobEvents& job, Sink& sink, bool exactly = false) {
  MergedOperands merged;
  const bool has_blocks = !job.output_blocks.empty();
  const uint32_t* block = job.output_blocks.data();
  const BlockChange* change = job.changes.data();
  const MergedOperands::Operand* operand = job.operands.data();
  const size_t* output = job.output_bytes.data();
  for (const JobEvent& event : job.events) {
    switch (event.kind) {
      case EventKind::kRoot:
        sink.root(event.bytes, event.role, event.block);
        break;
      case EventKind::kOperator:
        merged.merge({operand, event.operands});
        sink.call({event.type->name, event.cost_ns, merged.reads(), merged.writes(),
                   std::span(output, event.outputs), event.bytes, event.site, event.stream,
                   event.draws, event.recordable, std::span(change, event.changes),
                   std::span(block, has_blocks ? event.outputs : 0),
                   exactly ? merged.arguments() : std::span<const TraceArgument>(), event.place});
        break;
      case EventKind::kRelease:
        sink.release(event.storage);
        break;
      case EventKind::kUse:
        sink.use(event.storage, event.stream);
        break;
      case EventKind::kRole:
        sink.role(event.storage, event.role);
        break;
      case EventKind::kStep:
        sink.step();
        break;
      case EventKind::kBlock:
        sink.block(*change);
        break;
    }
    operand += event.operands;
    output += event.outputs;
    block += has_blocks ? event.outputs : 0;
    change += event.changes;
  }
}

}  // namespace tidepool::remat
