// LineageStore: allocates, links and frees storages, values, records and edges.
// Owns all of them, but not the bytes of values, which the observer gives up. Frees chains of
// records by a work list, so that memory bounds their length, not the stack. Not thread safe: the
// device's lock is held. Keeps invariants (1) to (4) of lineage.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "remat/lineage/lineage.h"
#include "remat/lineage/pool.h"

namespace tidepool::remat {

class LineageStore {
 public:
  // Is told of a value that nobody refers to any more, just before it is freed, if it has `kept`
  // bytes, a copy, a `component`, or a `changed_slot`. It has to clear all four. Is also told, by
  // cut(), of a value that lives on and only loses its lineage (it has references), if that has a
  // `changed_slot`, which has to be cleared then.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void value_dies(Value& value) = 0;
  };

  explicit LineageStore(Observer& observer);
  ~LineageStore() { clear(); }
  LineageStore(const LineageStore&) = delete;
  LineageStore& operator=(const LineageStore&) = delete;

  // Frees all storages, and with them all lineage.
  void clear();

  // Makes a storage whose contents are a root value of `bytes`.
  Storage* new_storage(void* framework_storage, void* address, size_t bytes, RootReason reason);
  // Frees a storage. Requires: it has no value any more (`current` is null), and is in no list.
  void free_storage(Storage* storage);

  // Makes a root with one reference, which belongs to the caller.
  Value* new_value(size_t bytes, RootReason reason);
  void release(Value* value) {
    if (--value->references == 0) destroy(value);
  }

  // Makes a record with one reference, which belongs to the caller. Its edges are empty.
  Record* new_record(const RecordType& type, size_t edges, size_t outputs, size_t body_bytes);
  void release(Record* record) {
    if (--record->references == 0) destroy(record);
  }

  // Makes `value` input `k` of the record, and takes a reference to it. link() enters the edges
  // into their values' lists of consumers once all are set.
  void set_edge(Record& record, size_t k, Value& value) {
    Edge& edge = record.edges[k];
    edge.value = &value;
    edge.record = &record;
    ++value.references;
  }
  void link(Record& record);

  // Counts bytes that the record's body keeps on the heap. Called at most once for a record.
  void add_heap_bytes(Record& record, size_t bytes);

  // Makes the root `value` output `k` of `record`. Requires: the record's depth is set.
  void set_producer(Value& value, Record& record, uint32_t k);

  // Makes a value with a producer a root. Requires: its bytes are available to its readers.
  void cut(Value& value, RootReason reason);

  // What loading a value's copy costs, as operators do; walks that sum up costs ask for it.
  void set_load_price(uint64_t fixed_ns, double ns_per_byte) {
    load_fixed_ns_ = fixed_ns;
    load_ns_per_byte_ = ns_per_byte;
  }
  uint64_t load_ns(const Value& value) const {
    return load_fixed_ns_ +
           static_cast<uint64_t>(load_ns_per_byte_ * static_cast<double>(value.bytes));
  }

  // A new mark for a walk, which no Record::mark and no Value::scratch has yet.
  uint32_t next_mark();

  size_t storages() const { return storages_.live(); }
  size_t values() const { return values_.live(); }
  size_t records() const { return slabs_.live(); }
  // The bytes of all that is alive, with what bodies keep on the heap.
  size_t bytes() const {
    return storages_.bytes() + values_.bytes() + slabs_.bytes() + heap_grains_ * SlabPool::kGrain;
  }

  template <typename Function>
  void for_each_storage(Function&& function) const {
    storages_.for_each(function);
  }
  template <typename Function>
  void for_each_value(Function&& function) const {
    values_.for_each(function);
  }

  // Aborts with values and place if an invariant of lineage.h does not hold. `exact`: no call or
  // restoration is under way, so that there is no reference but those of storages and edges.
  void check_invariants(bool exact) const;

 private:
  void destroy(Value* value);
  void destroy(Record* record);
  void free_record(Record* record);
  void check_record(const Record& record, bool exact) const;
  void check_value(const Value& value, bool exact) const;

  Observer& observer_;
  ObjectPool<Storage> storages_;
  ObjectPool<Value> values_;
  SlabPool slabs_;
  size_t heap_grains_ = 0;     // of all records
  std::vector<Record*> dead_;  // records to be freed; not empty only within destroy()
  bool draining_ = false;
  uint32_t mark_ = 0;
  uint64_t load_fixed_ns_ = 0;
  double load_ns_per_byte_ = 0;
};

}  // namespace tidepool::remat
