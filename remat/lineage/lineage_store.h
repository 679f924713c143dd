// LineageStore: allocates, links and frees storages, values, records and edges.
// Owns all of them; does not own the bytes behind a value (its observer gives those up). Freeing
// uses an explicit work list: the length of a chain of records is bounded by memory, not by stack.
// Not thread safe: the device's lock is held. Keeps invariants (1) to (4) of lineage.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "remat/lineage/lineage.h"
#include "remat/lineage/pool.h"

namespace tidepool::remat {

class LineageStore {
 public:
  // Told of a value that nobody refers to any more and that has `kept` bytes or a `component`, or
  // has `changed`, just before it is freed; must leave it with none of them.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void value_dies(Value& value) = 0;
  };

  explicit LineageStore(Observer& observer);
  ~LineageStore() { clear(); }
  LineageStore(const LineageStore&) = delete;
  LineageStore& operator=(const LineageStore&) = delete;

  // Forgets all storages, and with them what they were made from.
  void clear();

  // A tracked storage whose current contents are a root value of `bytes`.
  Storage* new_storage(void* backend, void* address, size_t bytes, RootReason reason);
  // Requires: its value has been taken from it (`current` is null), and it is in no list.
  void free_storage(Storage* storage);

  // A root with one reference, which belongs to the caller.
  Value* new_value(size_t bytes, RootReason reason);
  void release(Value* value) {
    if (--value->references == 0) destroy(value);
  }

  // A record with one reference, which belongs to the caller; its edges are empty.
  Record* new_record(const RecordType& type, size_t edges, size_t outputs, size_t body_bytes);
  void release(Record* record) {
    if (--record->references == 0) destroy(record);
  }

  // Fills edge `k` (takes a reference); link() enters all edges into their values' lists.
  void set_edge(Record& record, size_t k, Value& value) {
    Edge& edge = record.edges[k];
    edge.value = &value;
    edge.record = &record;
    ++value.references;
  }
  void link(Record& record);

  // The record's body keeps so many bytes outside of the slab until it is destroyed. Called once.
  void add_heap_bytes(Record& record, size_t bytes);

  // Makes `value`, a root, output `k` of `record`, which is deep enough.
  void set_producer(Value& value, Record& record, uint32_t k);

  // Makes a value with a producer a root. Requires: its bytes are where its readers find them.
  void cut(Value& value, RootReason reason);

  // A fresh mark for Record::epoch and Value::scratch: neither carries it.
  uint32_t next_epoch();

  size_t storages() const { return storages_.live(); }
  size_t values() const { return values_.live(); }
  size_t records() const { return slabs_.live(); }
  // Of all that is alive, with what bodies keep on the heap.
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
  uint32_t epoch_ = 0;
};

}  // namespace tidepool::remat
