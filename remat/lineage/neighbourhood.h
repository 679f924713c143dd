// Neighbourhood: exact walks from a value, up and down, over all unavailable values that can be
// reached through unavailable values. It gives the costs that policies price by, and against which
// tests check those that policies approximate. A value that has a copy in a tier ends a walk, as
// one that is available does; it costs what loading it does.
// Not thread safe: the device's lock is held. No recursion; a walk takes time linear in its region.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "remat/lineage/container_bytes.h"
#include "remat/lineage/lineage_store.h"

namespace tidepool::remat {

class Neighbourhood {
 public:
  explicit Neighbourhood(LineageStore& store) : store_(store) {}

  // The cost of the distinct records that would have to run to make the inputs of the value's
  // producer available again. The producer's own cost is not in it.
  uint64_t ancestors_ns(const Value& value);

  // The cost of the distinct records below `value` that are still needed: those with an unavailable
  // output that is live, or from which unavailable values lead to a live one.
  uint64_t needed_descendants_ns(const Value& value);

  // DTR's e_ancestors and e_descendants (Kirisame et al. 2021, appendix C): the costs of all values
  // that count and that lead to `value`, or to which it leads, through unavailable values only.
  // Several values of one record count separately.
  uint64_t ancestor_values_ns(const Value& value);
  uint64_t descendant_values_ns(const Value& value);

  // Whether a value counts for the above: its bytes are gone, and could be made again for its
  // storage or its readers. (A value that is just being written is not gone for its own storage.)
  static bool counts(const Value& value) {
    return !value.has_bytes() && value.producer != nullptr &&
           (value.consumers != nullptr || (value.storage != nullptr && value.storage->evicted));
  }

  // Calls `visit(const Storage&)` for every live evicted storage that is reached from `value`
  // through unavailable values.
  template <typename Visit>
  void for_each_evicted_below(const Value& value, Visit&& visit);

  // Calls above(Storage&) or below(Storage&) for every resident storage whose neighbourhood
  // contains one of `values`: `above` for those from which unavailable values lead down to it,
  // `below` for those to which they lead. The same storage may come twice. A walk up stops at
  // records that an earlier one has passed (Record::told_above), unless a sum of descendants has
  // passed them since: `above` is not told twice of a storage whose sum nobody has asked for in
  // between. Without that, each change would walk over all that is evicted above it. At most linear
  // in the size of the regions together.
  template <typename Above, typename Below>
  void for_each_frontier(std::span<Value* const> values, Above&& above, Below&& below) {
    walk_up(values, above);
    walk_down(values, [&](const Value& output) {
      if (!output.has_bytes()) return true;
      if (output.storage != nullptr) below(*output.storage);
      return false;
    });
  }

  // The bytes that are kept for the next walk.
  size_t bookkeeping_bytes() const { return bytes_of(values_) + bytes_of(frames_); }

 private:
  struct Frame {
    Record* record;
    const Edge* edge;  // next consumer to look at of output `output`
    uint32_t output;
  };

  template <typename Visit>
  void walk_up(std::span<Value* const> values, Visit&& visit);
  // Calls goes_on(const Value&) for every output of the distinct records below `values`; it says
  // whether the walk goes on to the records that read the output.
  template <typename GoesOn>
  void walk_down(std::span<const Value* const> values, GoesOn&& goes_on);
  Record* next_below(Frame& frame, uint32_t mark);

  LineageStore& store_;
  std::vector<const Value*> values_;
  std::vector<Frame> frames_;
};

template <typename Visit>
void Neighbourhood::walk_up(std::span<Value* const> values, Visit&& visit) {
  values_.assign(values.begin(), values.end());
  while (!values_.empty()) {
    Record* record = values_.back()->producer;
    values_.pop_back();
    if (record == nullptr || record->told_above) continue;
    record->told_above = true;
    for (size_t k = 0; k < record->edge_count; ++k) {
      const Value& input = *record->edges[k].value;
      if (!input.has_bytes()) values_.push_back(&input);
      if (input.available() && input.storage != nullptr) visit(*input.storage);
    }
  }
}

template <typename GoesOn>
void Neighbourhood::walk_down(std::span<const Value* const> values, GoesOn&& goes_on) {
  const uint32_t mark = store_.next_mark();
  values_.assign(values.begin(), values.end());
  while (!values_.empty()) {
    const Edge* edge = values_.back()->consumers;
    values_.pop_back();
    for (; edge != nullptr; edge = edge->next) {
      if (edge->record->mark == mark) continue;
      edge->record->mark = mark;
      for (size_t k = 0; k < edge->record->output_count; ++k) {
        const Value* output = edge->record->outputs[k];
        if (output != nullptr && goes_on(*output)) values_.push_back(output);
      }
    }
  }
}

template <typename Visit>
void Neighbourhood::for_each_evicted_below(const Value& value, Visit&& visit) {
  const Value* from = &value;
  walk_down({&from, 1}, [&](const Value& output) {
    if (output.has_bytes()) return false;
    if (output.live_and_evicted()) visit(*output.storage);
    return true;
  });
}

}  // namespace tidepool::remat
