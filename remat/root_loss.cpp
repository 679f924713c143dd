#include "remat/root_loss.h"

#include "allocator/check.h"
#include "remat/mutants.h"

namespace tidepool::remat {

void RootLoss::walk(const Value& value, Dependents* found, bool first_evicted_only) {
  const uint32_t epoch = store_.next_epoch();
  pending_.assign(1, &value);
  while (!pending_.empty()) {
    const Value& above = *pending_.back();
    pending_.pop_back();
    for (const Edge* edge = above.consumers; edge != nullptr; edge = edge->next) {
      Record& record = *edge->record;
      if (record.epoch == epoch) continue;
      record.epoch = epoch;
      for (size_t k = 0; k < record.output_count; ++k) {
        Value* output = record.outputs[k];
        if (output == nullptr) continue;
        // Contents that are being overwritten will be gone as well.
        if (!output->live() || output->storage->writing) pending_.push_back(output);
        if (!output->live()) continue;
        if (!output->storage->evicted) {
          found->resident.push_back(output);
        } else {
          found->evicted.push_back(output);
          if (first_evicted_only) return;
        }
      }
    }
  }
}

Dependents RootLoss::dependents(const Value& value) {
  Dependents found;
  walk(value, &found, false);
  return found;
}

bool RootLoss::is_needed(const Value& value) {
  Dependents found;
  walk(value, &found, true);
  return !found.evicted.empty();
}

void RootLoss::cut_dependents(const Dependents& dependents, RootReason reason) {
  TIDEPOOL_CHECK(dependents.evicted.empty(), "%zu evicted dependents would be lost",
                 dependents.evicted.size());
  for (Value* value : dependents.resident) {
    residency_.unlist(*value->storage);
    store_.cut(*value, reason);
  }
}

bool RootLoss::retain_or_cut(Value& value, void* address) {
  if (TIDEPOOL_MUTANT(2, death_not_cut)) return false;
  Dependents found;
  walk(value, &found, true);
  if (found.evicted.empty()) {
    cut_dependents(found, RootReason::kLostRoot);
    return false;
  }
  residency_.keep(value, address);
  ++retained;
  return true;
}

void RootLoss::release_if_idle(Value& value) {
  if (value.uses > 0 || is_needed(value)) return;
  const Dependents found = dependents(value);
  ++value.references;  // cutting the dependents may take the last one
  cut_dependents(found, RootReason::kLostRoot);
  residency_.free_kept(value);
  store_.release(&value);
}

void RootLoss::check_invariants() {
  const uint32_t epoch = store_.next_epoch();
  pending_.clear();
  store_.for_each_value([&](const Value& value) {
    if (value.live_and_evicted() && !value.available()) pending_.push_back(&value);
  });
  while (!pending_.empty()) {
    const Value& value = *pending_.back();
    pending_.pop_back();
    TIDEPOOL_CHECK(value.producer != nullptr, "invariant 1: %zu bytes that are needed were lost",
                   value.bytes);
    Record& record = *value.producer;
    if (record.epoch == epoch) continue;
    record.epoch = epoch;
    for (size_t k = 0; k < record.edge_count; ++k) {
      if (!record.edges[k].value->available()) pending_.push_back(record.edges[k].value);
    }
  }
}

size_t RootLoss::sweep() {
  sweep_due_ = false;
  size_t freed = 0;
  const std::vector<Value*>& kept = residency_.kept();
  // Freeing one may free others, so look at the list anew after each.
  for (size_t k = 0; k < kept.size();) {
    Value& value = *kept[k];
    const size_t before = kept.size();
    if (value.producer == nullptr && value.storage == nullptr) release_if_idle(value);
    if (kept.size() == before) {
      ++k;
    } else {
      freed += before - kept.size();
      k = 0;
    }
  }
  return freed;
}

}  // namespace tidepool::remat
