#include "remat/residency/dependent_cut.h"

#include <algorithm>

#include "allocator/base/check.h"

namespace tidepool::remat {

void DependentCut::walk(std::span<const Value* const> from, Dependents* found,
                        bool first_evicted_only) {
  const uint32_t mark = store_.next_mark();
  pending_.assign(from.begin(), from.end());
  while (!pending_.empty()) {
    const Value& above = *pending_.back();
    pending_.pop_back();
    for (const Edge* edge = above.consumers; edge != nullptr; edge = edge->next) {
      Record& record = *edge->record;
      if (record.mark == mark) continue;
      record.mark = mark;
      if (first_evicted_only && record.output_count > 0) {
        // Several roots that one record reads come here one after the other, and get the same
        // answer.
        Value* output = record.outputs[record.evicted_output];
        ++checks;
        if (output != nullptr && output->live_and_evicted() && !output->copied) {
          found->evicted.push_back(output);
          return;
        }
      }
      for (uint32_t k = 0; k < record.output_count; ++k) {
        Value* output = record.outputs[k];
        ++checks;
        if (output == nullptr) continue;
        // Contents that are being overwritten will be gone as well.
        if (passes(*output)) pending_.push_back(output);
        if (!output->live()) continue;
        if (!output->storage->evicted || output->copied) {
          found->resident.push_back(output);
        } else {
          found->evicted.push_back(output);
          record.evicted_output = k;
          if (first_evicted_only) return;
        }
      }
    }
  }
}

Dependents DependentCut::dependents(const Value& value) {
  Dependents found;
  const Value* from = &value;
  walk({&from, 1}, &found, false);
  return found;
}

void DependentCut::cut_dependents(const Dependents& dependents, RootReason reason) {
  TIDEPOOL_CHECK(dependents.evicted.empty(), "%zu evicted dependents would be lost",
                 dependents.evicted.size());
  for (Value* value : dependents.resident) {
    residency_.unlist(*value->storage);
    store_.cut(*value, reason);
  }
}

bool DependentCut::retain_or_cut(Value& value, void* address, bool will_be_refilled) {
  Dependents found;
  const Value* from = &value;
  const uint64_t checks_before = checks;
  walk({&from, 1}, &found, true);
  if (found.evicted.empty()) {
    size_t bytes = 0;
    for (const Value* each : found.resident) bytes += each->bytes;
    const uint64_t looks = checks - checks_before;
    const bool is_number = value.bytes <= kNumberBytes && looks <= kShortWalk;
    const bool is_limit = residency_.evictions > 0 && is_root_by_limit(value) &&
                          looks <= kLongWalk && bytes >= kLimitTimes * value.bytes;
    if (bytes <= value.bytes || !(will_be_refilled || is_number || is_limit)) {
      cut_dependents(found, RootReason::kLostRoot);
      return false;
    }
    value.spare = true;
  }
  residency_.keep(value, address);
  ++retained;
  return true;
}

// Marks the retained roots that evicted live values need, and returns the mark. Spare ones that
// stay anyway are not looked at. One walk goes down from all the others at once, and another one up
// again from the evicted values found, so that the outputs of a record that reads many roots are
// not looked at once for each.
uint32_t DependentCut::mark_needed(Spares spares) {
  absl::InlinedVector<const Value*, 8> roots;
  for (const Value* value : residency_.kept()) {
    if (may_go(*value, spares)) roots.push_back(value);
  }
  Dependents found;
  walk({roots.data(), roots.size()}, &found, false);
  const uint32_t mark = store_.next_mark();
  pending_.assign(found.evicted.begin(), found.evicted.end());
  while (!pending_.empty()) {
    Record* producer = pending_.back()->producer;
    pending_.pop_back();
    if (producer == nullptr || producer->mark == mark) continue;
    producer->mark = mark;
    for (size_t k = 0; k < producer->edge_count; ++k) {
      Value& input = *producer->edges[k].value;
      ++checks;
      if (is_retained(input)) input.scratch = mark;
      if (passes(input)) pending_.push_back(&input);
    }
  }
  return mark;
}

void DependentCut::release(Value& value) {
  const Dependents found = dependents(value);
  ++value.references;  // cutting the dependents may take the last other reference
  cut_dependents(found, RootReason::kLostRoot);
  residency_.free_kept(value);
  store_.release(&value);
}

void DependentCut::check_invariants() {
  const uint32_t mark = store_.next_mark();
  pending_.clear();
  store_.for_each_value([&](const Value& value) {
    if (value.live_and_evicted() && !value.has_bytes()) pending_.push_back(&value);
  });
  while (!pending_.empty()) {
    const Value& value = *pending_.back();
    pending_.pop_back();
    if (value.lost) continue;
    TIDEPOOL_CHECK(value.producer != nullptr, "invariant 1: %zu bytes that are needed were lost",
                   value.bytes);
    Record& record = *value.producer;
    if (record.mark == mark) continue;
    record.mark = mark;
    for (size_t k = 0; k < record.edge_count; ++k) {
      if (!record.edges[k].value->has_bytes()) pending_.push_back(record.edges[k].value);
    }
  }
}

size_t DependentCut::sweep(Spares spares) {
  sweep_due_ = false;
  const std::vector<Value*>& kept = residency_.kept();
  const size_t before = kept.size();
  if (before == 0) return 0;
  const uint32_t needed = mark_needed(spares);
  // The loop goes from the end, because a root that is freed is replaced by the last one in the
  // list, which has been looked at then. No root becomes needed meanwhile, since only resident
  // values lose their lineage.
  for (size_t k = before; k > 0; k = std::min(k - 1, kept.size())) {
    Value& value = *kept[k - 1];
    if (!may_go(value, spares) || value.uses > 0 || value.scratch == needed) continue;
    release(value);
  }
  return before - kept.size();
}

}  // namespace tidepool::remat
