#include "remat/restore/restoration_plan.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace tidepool::remat {

RestorationPlan::~RestorationPlan() {
  for (size_t k = done_; k < order_.size(); ++k) leave(order_[k]);
  for (const Frame& frame : frames_) leave({frame.record, nullptr});
}

void RestorationPlan::enter(Record& record) {
  if (order_.size() + frames_.size() >= kMostRecords) {
    throw RestorationError(fmt::format("restoring would replay more than {} operators (at {})",
                                       kMostRecords, record.type->name));
  }
  frames_.push_back({&record, 0});
  record.mark = mark_;
  ++record.references;
  for (size_t k = 0; k < record.edge_count; ++k) {
    ++record.edges[k].value->uses;
    if (mode_ == Mode::kFirm) ++record.edges[k].value->locks;
  }
}

void RestorationPlan::end_use(Value& value) {
  if (mode_ == Mode::kFirm) --value.locks;
  if (--value.uses > 0 || value.kept == nullptr) return;
  if (value.producer == nullptr && !value.copied && !value.lost) {
    contents_.dependent_cut.make_sweep_due();
    return;
  }
  contents_.residency.free_kept(value);
  contents_.residency.availability_changed(value);
}

// The reference keeps the copy where it is, whatever becomes of the value's storage.
void RestorationPlan::load(Value& value) {
  value.scratch = mark_;
  ++value.references;
  order_.push_back({nullptr, &value});
}

void RestorationPlan::leave(const Step& step) {
  if (step.record == nullptr) {
    contents_.store.release(step.loaded);
    return;
  }
  Record& record = *step.record;
  for (size_t k = 0; k < record.edge_count; ++k) end_use(*record.edges[k].value);
  contents_.store.release(&record);
}

// The next unavailable input whose producer is not in the plan yet. The deepest comes first,
// because its chain then runs while the others take no memory.
Value* RestorationPlan::next_input(Frame& frame) const {
  const Record& record = *frame.record;
  const bool few = record.edge_count <= kFewEdges;
  Value* deepest = nullptr;
  for (uint32_t k = few ? 0 : frame.cursor; k < record.edge_count; ++k) {
    Value* value = record.edges[k].value;
    if (value->lost && !value->copied) throw written_unseen_error(record, *value);
    if (value->available()) continue;
    if (value->copied) {
      if (value->scratch == mark_) continue;
    } else if (value->producer == nullptr) {
      throw RestorationError(
          fmt::format("cannot restore the result of {}: {} bytes that it read "
                      "were lost",
                      record.type->name, value->bytes));
    }
    if (!value->copied && value->producer->mark == mark_) continue;
    if (!few) {
      frame.cursor = k + 1;
      return value;
    }
    if (deepest == nullptr || value->depth > deepest->depth) deepest = value;
  }
  if (!few && deepest == nullptr) frame.cursor = record.edge_count;
  return deepest;
}

void RestorationPlan::add(Value& target) {
  if (mark_ == 0) mark_ = contents_.store.next_mark();
  if (target.copied) {
    if (target.scratch != mark_) load(target);
    return;
  }
  if (target.producer == nullptr) {
    throw RestorationError(fmt::format("cannot restore {} bytes without lineage", target.bytes));
  }
  if (target.producer->mark == mark_) return;
  enter(*target.producer);
  while (!frames_.empty()) {
    if (Value* input = next_input(frames_.back())) {
      if (input->copied) {
        load(*input);
      } else {
        enter(*input->producer);
      }
    } else {
      order_.push_back({frames_.back().record, nullptr});
      frames_.pop_back();
    }
  }
}

size_t RestorationPlan::estimate_peak_bytes() {
  const auto for_each_input = [this](auto&& visit) {
    for (const Step& step : order_) {
      for (size_t k = 0; step.record != nullptr && k < step.record->edge_count; ++k) {
        visit(*step.record->edges[k].value);
      }
    }
  };
  for_each_input([](Value& value) { value.scratch = 0; });
  for_each_input([](Value& value) { ++value.scratch; });
  size_t now = 0;
  size_t peak = 0;
  for (const Step& step : order_) {
    if (step.record == nullptr) {
      if (!step.loaded->available()) now += step.loaded->bytes;
      peak = std::max(peak, now);
      continue;
    }
    const Record* const record = step.record;
    for (size_t k = 0; k < record->output_count; ++k) {
      const Value* output = record->outputs[k];
      if (output == nullptr || output->available()) continue;
      if (output->uses > 0 || output->live_and_evicted()) now += output->bytes;
    }
    peak = std::max(peak, now);
    for (size_t k = 0; k < record->edge_count; ++k) {
      Value* input = record->edges[k].value;
      if (--input->scratch > 0 || input->available() || input->live_and_evicted()) continue;
      now -= input->bytes;
    }
  }
  return peak;
}

bool RestorationPlan::next_is_ready() const {
  if (const Value* const loaded = order_[done_].loaded) return loaded->has_bytes();
  const Record& record = *order_[done_].record;
  return std::all_of(record.edges, record.edges + record.edge_count,
                     [](const Edge& edge) { return edge.value->available(); });
}

void RestorationPlan::lock_next() {
  if (mode_ == Mode::kFirm || order_[done_].record == nullptr) return;
  Record& record = *order_[done_].record;
  for (size_t k = 0; k < record.edge_count; ++k) ++record.edges[k].value->locks;
}

void RestorationPlan::unlock_next() {
  if (mode_ == Mode::kFirm || order_[done_].record == nullptr) return;
  Record& record = *order_[done_].record;
  for (size_t k = 0; k < record.edge_count; ++k) --record.edges[k].value->locks;
}

void RestorationPlan::finish_next() { leave(order_[done_++]); }

bool RestorationPlan::give_up_ghost() {
  if (mode_ == Mode::kFirm) return false;
  const uint32_t seen = contents_.store.next_mark();
  Value* ghost = nullptr;
  uint64_t most = 0;  // byte-steps until the first read
  for (size_t at = done_; at < order_.size(); ++at) {
    const Record* const record = order_[at].record;
    for (size_t k = 0; record != nullptr && k < record->edge_count; ++k) {
      Value& value = *record->edges[k].value;
      if (std::exchange(value.scratch, seen) == seen) continue;
      const bool is_free_to_go = value.kept != nullptr && value.storage == nullptr &&
                                 value.locks == 0 && (value.producer != nullptr || value.copied);
      const uint64_t byte_steps = uint64_t{value.bytes} * (at - done_ + 1);
      if (!is_free_to_go || byte_steps <= most) continue;
      ghost = &value;
      most = byte_steps;
    }
  }
  if (ghost == nullptr) return false;
  contents_.residency.free_kept(*ghost);
  contents_.residency.availability_changed(*ghost);
  return true;
}

}  // namespace tidepool::remat
