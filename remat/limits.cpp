#include "remat/limits.h"

#include <algorithm>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace tidepool::remat {

uint32_t LimitKeeper::depth_of(const Record& record) {
  uint32_t depth = 0;
  for (size_t k = 0; k < record.edge_count; ++k) {
    depth = std::max(depth, record.edges[k].value->depth);
  }
  return depth + 1;
}

Value* LimitKeeper::deepest_input(const Record& record) {
  Value* deepest = nullptr;
  for (size_t k = 0; k < record.edge_count; ++k) {
    Value* value = record.edges[k].value;
    if (deepest == nullptr || value->depth > deepest->depth) deepest = value;
  }
  return deepest;
}

RootReason LimitKeeper::admit(Record& record, const Storage* written, size_t output_bytes) {
  if (contents_.store.records() > limits_.records) return RootReason::kRecordLimit;
  if (!has_room()) [[unlikely]]
    return RootReason::kBookkeepingLimit;
  if (written != nullptr && !record.overwrites && written->versions >= limits_.versions) {
    return RootReason::kVersionLimit;
  }
  record.depth = depth_of(record);
  if (record.depth > limits_.depth && !shorten_chains(record, output_bytes)) {
    return RootReason::kDepthLimit;
  }
  return RootReason::kNone;
}

bool LimitKeeper::shorten_chains(Record& record, size_t output_bytes) {
  const bool soon = records_seen_ - records_shortened_ <= kSoon;
  soon_shortened_ = soon ? std::min(soon_shortened_ + 1, kMostDoublings) : 0;
  records_shortened_ = records_seen_;
  const size_t most_bytes =
      soon_shortened_ > 0 ? output_bytes << soon_shortened_ : std::max<size_t>(output_bytes, 1) - 1;
  for (uint32_t chains = 0; chains < kChains && record.depth > limits_.depth; ++chains) {
    if (!shorten(record, most_bytes)) return false;
  }
  return record.depth <= limits_.depth;
}

bool LimitKeeper::shorten(Record& record, size_t most_bytes) {
  // The deepest chain above the record, the nearest value first: the producer of chain[k - 1] reads
  // chain[k].
  absl::InlinedVector<Value*, kDepthWindow> chain;
  Value* smallest = nullptr;
  size_t smallest_at = 0;
  const Record* below = &record;
  while (below != nullptr && chain.size() < kDepthWindow) {
    Value* value = deepest_input(*below);
    if (value == nullptr || value->producer == nullptr) break;
    const bool resident = value->live() && !value->storage->evicted && !value->storage->writing;
    if (resident && value->bytes <= most_bytes &&
        (smallest == nullptr || value->bytes < smallest->bytes)) {
      smallest = value;
      smallest_at = chain.size();
    }
    chain.push_back(value);
    below = value->producer;
  }
  if (smallest == nullptr) return false;
  contents_.residency.unlist(*smallest->storage);
  contents_.store.cut(*smallest, RootReason::kDepthLimit);
  for (size_t k = smallest_at; k-- > 0;) {
    Record& producer = *chain[k]->producer;
    producer.depth = depth_of(producer);
    for (size_t n = 0; n < producer.output_count; ++n) {
      if (producer.outputs[n] != nullptr) producer.outputs[n]->depth = producer.depth;
    }
  }
  record.depth = depth_of(record);
  return true;
}

bool LimitKeeper::has_room() {
  if (records_seen_++ % kSideInterval == 0) [[unlikely]]
    side_bytes_seen_ = side_bytes();
  return lineage_bytes() + side_bytes_seen_ <= limits_.bookkeeping_bytes || make_room();
}

// Makes an eighth of the values roots at once, so that not every record from here on walks the
// list. Those come first that were entered longest ago, which have neither been made nor restored
// since.
bool LimitKeeper::make_room() {
  const size_t limit = limits_.bookkeeping_bytes;
  for (Storage* storage = contents_.residency.last_listed(); storage != nullptr;) {
    if (lineage_bytes() + side_bytes_seen_ <= limit - limit / 8) break;
    Storage* previous = contents_.residency.previous_listed(storage);
    if (!storage->writing) {
      contents_.residency.unlist(*storage);
      contents_.store.cut(*storage->current, RootReason::kBookkeepingLimit);
    }
    storage = previous;
  }
  return lineage_bytes() + side_bytes_seen_ <= limit;
}

template <class Wanted>
void LimitKeeper::cut_where(Wanted&& wanted, RootReason reason) {
  for (Storage* storage = contents_.residency.first_listed(); storage != nullptr;) {
    Storage* next = contents_.residency.next_listed(storage);
    // Contents that are being overwritten will be gone soon, and their readers may need the
    // lineage.
    if (!storage->writing && wanted(*storage)) {
      contents_.residency.unlist(*storage);
      contents_.store.cut(*storage->current, reason);
    }
    storage = next;
  }
  cut_copied_where(wanted, reason);
}

// Evicted contents that have a copy need no lineage either.
template <class Wanted>
void LimitKeeper::cut_copied_where(Wanted&& wanted, RootReason reason) {
  std::vector<Value*> found;
  contents_.residency.copies.for_each([&](Value& value) {
    if (value.producer == nullptr || !value.live_and_evicted() || !wanted(*value.storage)) return;
    ++value.references;
    found.push_back(&value);
  });
  for (Value* value : found) contents_.store.cut(*value, reason);
  for (Value* value : found) contents_.store.release(value);
}

void LimitKeeper::cut_aged(uint64_t step) {
  cut_where(
      [&](const Storage& storage) {
        return storage.role == Role::kOptimizerState ||
               storage.current->producer->step + limits_.age_steps < step;
      },
      RootReason::kAgeLimit);
}

void LimitKeeper::cut_all(RootReason reason) {
  cut_where([](const Storage&) { return true; }, reason);
}

}  // namespace tidepool::remat
