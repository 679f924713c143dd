// Neighbourhood: exact walks over the unavailable values around a value, as far as unavailable
// values reach. `Available` stops a walk. The oracle for what policies approximate.
// Not thread safe: the device's lock is held. No recursion; cost linear in the region walked.
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

  // Sum over the distinct records that would have to run to produce the producer's inputs again
  // (RESEARCH formula: evicted ancestors). The producer's own cost is not in it.
  uint64_t ancestors_ns(const Value& value);

  // Sum over the distinct records below `value` with an unavailable output that is live, or from
  // which unavailable values lead to one that is live.
  uint64_t needed_descendants_ns(const Value& value);

  // DTR's e_ancestors and e_descendants (Kirisame et al. 2021, appendix C): sums over the values
  // that count and that `value` is reached from, or that are reached from it, through unavailable
  // values only. Each counts, also several of one record.
  uint64_t ancestor_values_ns(const Value& value);
  uint64_t descendant_values_ns(const Value& value);

  // Its bytes are gone and could be made again, for its storage or for whoever reads it. (What is
  // just being written is not gone for its own storage.)
  static bool counts(const Value& value) {
    return !value.available() && value.producer != nullptr &&
           (value.consumers != nullptr || (value.storage != nullptr && value.storage->evicted));
  }

  // Calls `visit(const Storage&)` for every live evicted storage that is reached from `value`
  // through unavailable values.
  template <typename Visit>
  void for_each_evicted_below(const Value& value, Visit&& visit);

  // Calls `above(Storage&)` and `below(Storage&)` for every resident storage whose neighbourhood
  // one of `values` is in: those reached from it, up or down, through unavailable values. The same
  // storage may come twice. `above` is not told again of a storage whose sum of descendants was not
  // asked for since: a walk up ends at records that one has passed since such a sum last did
  // (Record::told_above). Else each change would walk all of what is evicted above it. At most
  // linear in the regions together.
  template <typename Above, typename Below>
  void for_each_frontier(std::span<Value* const> values, Above&& above, Below&& below) {
    walk_up(values, above);
    walk_down(values, [&](const Value& output) {
      if (!output.available()) return true;
      if (output.storage != nullptr) below(*output.storage);
      return false;
    });
  }

  // For the next walk.
  size_t bookkeeping_bytes() const { return bytes_of(values_) + bytes_of(frames_); }

 private:
  struct Frame {
    Record* record;
    const Edge* edge;  // next consumer to look at of output `output`
    uint32_t output;
  };

  template <typename Visit>
  void walk_up(std::span<Value* const> values, Visit&& visit);
  // Asks `goes_on(const Value&)` of every output of the distinct records below `values`, whether
  // those that read it are looked at, too.
  template <typename GoesOn>
  void walk_down(std::span<const Value* const> values, GoesOn&& goes_on);
  Record* next_below(Frame& frame, uint32_t epoch);

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
      if (!input.available()) values_.push_back(&input);
      if (input.available() && input.storage != nullptr) visit(*input.storage);
    }
  }
}

template <typename GoesOn>
void Neighbourhood::walk_down(std::span<const Value* const> values, GoesOn&& goes_on) {
  const uint32_t epoch = store_.next_epoch();
  values_.assign(values.begin(), values.end());
  while (!values_.empty()) {
    const Edge* edge = values_.back()->consumers;
    values_.pop_back();
    for (; edge != nullptr; edge = edge->next) {
      if (edge->record->epoch == epoch) continue;
      edge->record->epoch = epoch;
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
    if (output.available()) return false;
    if (output.live_and_evicted()) visit(*output.storage);
    return true;
  });
}

}  // namespace tidepool::remat
