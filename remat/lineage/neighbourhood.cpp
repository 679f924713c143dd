#include "remat/lineage/neighbourhood.h"

#include <utility>

namespace tidepool::remat {

uint64_t Neighbourhood::ancestors_ns(const Value& value) {
  if (value.producer == nullptr) return 0;
  const uint32_t mark = store_.next_mark();
  value.producer->mark = mark;
  uint64_t sum = 0;
  values_.assign(1, &value);
  while (!values_.empty()) {
    const Record& record = *values_.back()->producer;
    values_.pop_back();
    for (size_t k = 0; k < record.edge_count; ++k) {
      Value& input = *record.edges[k].value;
      if (input.available()) continue;
      if (input.copied) {
        if (std::exchange(input.scratch, mark) != mark) sum += store_.load_ns(input);
        continue;
      }
      if (input.producer == nullptr) continue;
      if (input.producer->mark == mark) continue;
      input.producer->mark = mark;
      sum += input.producer->cost_ns;
      values_.push_back(&input);
    }
  }
  return sum;
}

uint64_t Neighbourhood::ancestor_values_ns(const Value& value) {
  const uint32_t mark = store_.next_mark();
  uint64_t sum = 0;
  values_.assign(1, &value);
  while (!values_.empty()) {
    const Record* record = values_.back()->producer;
    values_.pop_back();
    for (size_t k = 0; record != nullptr && k < record->edge_count; ++k) {
      Value& input = *record->edges[k].value;
      if (input.scratch == mark || !counts(input)) continue;
      input.scratch = mark;
      sum += input.producer->cost_ns;
      values_.push_back(&input);
    }
  }
  return sum;
}

uint64_t Neighbourhood::descendant_values_ns(const Value& value) {
  uint64_t sum = 0;
  const Value* from = &value;
  walk_down({&from, 1}, [&](const Value& output) {
    output.producer->told_above = false;
    if (!counts(output)) return false;
    sum += output.producer->cost_ns;
    return true;
  });
  return sum;
}

// Returns the next record that reads an unavailable output of the frame's record. On the way it
// marks the frame's record as needed, if such an output is live or a finished record below is
// needed.
Record* Neighbourhood::next_below(Frame& frame, uint32_t mark) {
  while (true) {
    while (frame.edge != nullptr) {
      Record* below = frame.edge->record;
      frame.edge = frame.edge->next;
      if (below->mark != mark) return below;
      frame.record->needed |= below->needed;
    }
    const Value* output = nullptr;
    while (output == nullptr && frame.output < frame.record->output_count) {
      output = frame.record->outputs[frame.output++];
      if (output != nullptr && output->has_bytes()) output = nullptr;
    }
    if (output == nullptr) return nullptr;
    frame.record->needed |= output->live_and_evicted();
    frame.edge = output->consumers;
  }
}

uint64_t Neighbourhood::needed_descendants_ns(const Value& value) {
  const uint32_t mark = store_.next_mark();
  uint64_t sum = 0;
  frames_.clear();
  for (const Edge* top = value.consumers; top != nullptr; top = top->next) {
    if (top->record->mark == mark) continue;
    Record* enter = top->record;
    // The walk goes depth first. When a record's frame is popped, its `needed` is final.
    while (true) {
      if (enter != nullptr) {
        enter->mark = mark;
        enter->needed = false;
        enter->told_above = false;
        frames_.push_back({enter, nullptr, 0});
      }
      enter = next_below(frames_.back(), mark);
      if (enter != nullptr) continue;
      const Record* done = frames_.back().record;
      frames_.pop_back();
      if (done->needed) sum += done->cost_ns;
      if (frames_.empty()) break;
      frames_.back().record->needed |= done->needed;
    }
  }
  return sum;
}

}  // namespace tidepool::remat
