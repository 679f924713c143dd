#include "remat/lineage/lineage_store.h"

#include <algorithm>
#include <new>
#include <span>
#include <utility>

#include "allocator/base/check.h"

namespace tidepool::remat {
namespace {

constexpr size_t kBodyAlignment = 16;

size_t round_up(size_t bytes) { return (bytes + kBodyAlignment - 1) & ~(kBodyAlignment - 1); }

size_t grains_of(size_t bytes) { return (bytes + SlabPool::kGrain - 1) / SlabPool::kGrain; }

void unlink(Edge& edge) {
  if (edge.link == nullptr) return;
  *edge.link = edge.next;
  if (edge.next != nullptr) edge.next->link = edge.link;
  edge.link = nullptr;
  edge.next = nullptr;
}

}  // namespace

LineageStore::LineageStore(Observer& observer) : observer_(observer) {}

void LineageStore::clear() {
  // Records are freed one by one, because their bodies own objects of the backend.
  std::vector<Storage*> left;
  storages_.for_each([&](Storage& storage) { left.push_back(&storage); });
  for (Storage* storage : left) {
    if (storage->current != nullptr) release(std::exchange(storage->current, nullptr));
  }
  for (Storage* storage : left) free_storage(storage);
}

Storage* LineageStore::new_storage(void* framework_storage, void* address, size_t bytes,
                                   RootReason reason) {
  Storage* storage = storages_.take();
  storage->framework_storage = framework_storage;
  storage->address = address;
  storage->current = new_value(bytes, reason);
  storage->current->storage = storage;
  return storage;
}

void LineageStore::free_storage(Storage* storage) { storages_.put(storage); }

Value* LineageStore::new_value(size_t bytes, RootReason reason) {
  Value* value = values_.take();
  value->references = 1;
  value->bytes = bytes;
  value->reason = reason;
  return value;
}

Record* LineageStore::new_record(const RecordType& type, size_t edges, size_t outputs,
                                 size_t body_bytes) {
  TIDEPOOL_CHECK(edges < Record::kNoEdge && outputs < Record::kNoEdge, "%zu inputs, %zu outputs",
                 edges, outputs);
  const size_t fixed = round_up(sizeof(Record) + edges * sizeof(Edge) + outputs * sizeof(Value*));
  const size_t grains = grains_of(fixed + round_up(body_bytes));
  char* slab = static_cast<char*>(slabs_.take(grains * SlabPool::kGrain));
  Record* record = new (slab) Record{};
  record->type = &type;
  record->references = 1;
  record->slab_grains = static_cast<uint32_t>(grains);
  record->edge_count = static_cast<uint32_t>(edges);
  record->output_count = static_cast<uint32_t>(outputs);
  slab += sizeof(Record);
  record->edges = reinterpret_cast<Edge*>(slab);
  for (size_t k = 0; k < edges; ++k) new (&record->edges[k]) Edge{};
  slab += edges * sizeof(Edge);
  record->outputs = reinterpret_cast<Value**>(slab);
  if (outputs == 1) [[likely]] {  // not worth a call of memset
    record->outputs[0] = nullptr;
  } else {
    std::fill_n(record->outputs, outputs, nullptr);
  }
  record->body = reinterpret_cast<char*>(record) + fixed;
  return record;
}

void LineageStore::add_heap_bytes(Record& record, size_t bytes) {
  record.heap_grains = static_cast<uint32_t>(grains_of(bytes));
  heap_grains_ += record.heap_grains;
}

void LineageStore::link(Record& record) {
  for (size_t k = 0; k < record.edge_count; ++k) {
    Edge& edge = record.edges[k];
    edge.next = edge.value->consumers;
    edge.link = &edge.value->consumers;
    if (edge.next != nullptr) edge.next->link = &edge.next;
    edge.value->consumers = &edge;
  }
  record.linked = true;
}

void LineageStore::set_producer(Value& value, Record& record, uint32_t k) {
  value.producer = &record;
  value.output = k;
  value.depth = record.depth;
  value.reason = RootReason::kNone;
  record.outputs[k] = &value;
  ++record.references;
}

void LineageStore::cut(Value& value, RootReason reason) {
  // The observer is told now, because later no walk gets from this value to what depends on it.
  if (value.changed_slot != 0 || value.copied) observer_.value_dies(value);
  Record* record = value.producer;
  value.producer = nullptr;
  value.depth = 0;
  value.reason = reason;
  record->outputs[value.output] = nullptr;
  release(record);
}

uint32_t LineageStore::next_mark() {
  // After 2^32 walks the number wraps around. All marks start over then, because a stale one would
  // end a walk early.
  if (++mark_ == 0) {
    for_each_value([](Value& value) {
      value.scratch = 0;
      if (value.producer != nullptr) value.producer->mark = 0;
    });
    mark_ = 1;
  }
  return mark_;
}

void LineageStore::destroy(Value* value) {
  const bool known = value->component != 0 || value->changed_slot != 0;
  if (value->kept != nullptr || value->copied || value->watched || value->checked || known) {
    observer_.value_dies(*value);
  }
  Record* producer = value->producer;
  if (producer != nullptr) producer->outputs[value->output] = nullptr;
  values_.put(value);
  if (producer != nullptr) release(producer);
}

void LineageStore::destroy(Record* record) {
  if (draining_) {
    dead_.push_back(record);
    return;
  }
  draining_ = true;
  free_record(record);
  while (!dead_.empty()) {
    Record* next = dead_.back();
    dead_.pop_back();
    free_record(next);
  }
  draining_ = false;
}

void LineageStore::free_record(Record* record) {
  for (size_t k = 0; k < record->edge_count; ++k) {
    unlink(record->edges[k]);
    if (record->edges[k].value != nullptr) release(record->edges[k].value);
  }
  if (record->type->destroy_body != nullptr) record->type->destroy_body(record->body);
  heap_grains_ -= record->heap_grains;
  slabs_.put(record, record->slab_grains * SlabPool::kGrain);
}

void LineageStore::check_invariants(bool exact) const {
  storages_.for_each([](const Storage& storage) {
    if (storage.current == nullptr) {
      TIDEPOOL_CHECK(storage.dead, "a live storage without contents");
      return;
    }
    TIDEPOOL_CHECK(storage.current->storage == &storage, "a storage's value belongs to another");
    TIDEPOOL_CHECK(!storage.evicted || storage.current->producer != nullptr ||
                       storage.current->kept != nullptr || storage.current->copied,
                   "invariant 1: an evicted root of %zu bytes", storage.current->bytes);
    TIDEPOOL_CHECK(storage.evicted == (storage.address == nullptr), "evicted %d but address %p",
                   storage.evicted, storage.address);
    TIDEPOOL_CHECK(!storage.escaped || storage.current->producer == nullptr,
                   "an escaped storage with lineage");
  });
  values_.for_each([&](const Value& value) { check_value(value, exact); });
  TIDEPOOL_CHECK(dead_.empty() && !draining_, "%zu records left to be freed", dead_.size());
}

void LineageStore::check_value(const Value& value, bool exact) const {
  const Storage* storage = value.storage;
  uint32_t references = storage != nullptr && storage->current == &value ? 1 : 0;
  Edge* const* link = &value.consumers;
  for (const Edge* edge = value.consumers; edge != nullptr; edge = edge->next) {
    TIDEPOOL_CHECK(edge->value == &value && edge->link == link && edge->record->linked,
                   "invariant 2: a broken list of consumers");
    TIDEPOOL_CHECK(edge->record->depth > value.depth,
                   "invariant 3: a record of depth %u reads a value of depth %u",
                   edge->record->depth, value.depth);
    link = &edge->next;
    ++references;
  }
  TIDEPOOL_CHECK(exact ? value.references == references : value.references >= references,
                 "invariant 4: a value with %u references, %u found", value.references, references);
  if (value.producer == nullptr) {
    TIDEPOOL_CHECK(value.depth == 0, "invariant 3: a root of depth %u", value.depth);
  } else {
    const Record& producer = *value.producer;
    TIDEPOOL_CHECK(producer.outputs[value.output] == &value,
                   "a value is not the output that its producer says");
    TIDEPOOL_CHECK(value.depth == producer.depth, "invariant 3: depth %u from a record of %u",
                   value.depth, producer.depth);
    // The record is checked once, not once for each of its outputs.
    const std::span<Value* const> outputs(producer.outputs, producer.output_count);
    const auto first = std::find_if(outputs.begin(), outputs.end(),
                                    [](const Value* output) { return output != nullptr; });
    if (*first == &value) check_record(producer, exact);
  }
  const bool has_bytes = storage != nullptr && !storage->evicted && !storage->writing;
  TIDEPOOL_CHECK(value.kept == nullptr || !has_bytes, "invariant 5: a value with two places");
}

void LineageStore::check_record(const Record& record, bool exact) const {
  uint32_t references = 0;
  for (size_t k = 0; k < record.output_count; ++k) references += record.outputs[k] != nullptr;
  TIDEPOOL_CHECK(exact ? record.references == references : record.references >= references,
                 "invariant 4: record %s has %u references, %u found", record.type->name,
                 record.references, references);
  for (size_t k = 0; k < record.edge_count; ++k) {
    TIDEPOOL_CHECK((record.edges[k].link != nullptr) == record.linked,
                   "invariant 2: record %s is linked in part", record.type->name);
  }
}

}  // namespace tidepool::remat
