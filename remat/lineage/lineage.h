// Lineage: storages, values (versions of a storage's contents), records (operator calls) and the
// edges between them. Plain data; LineageStore allocates, links and frees it.
// A record refers to values and holds no storage alive. A value is alive while a storage holds it
// as its current contents or a record reads it. Not thread safe: the device's lock is held.
// Invariants (LineageStore::check_invariants): (1) an evicted storage's value has a producer, or,
// while its bytes are being moved, keeps them;
// (2) every edge of a linked record is in its value's consumer list, and no other edge is;
// (3) a value's depth is greater than that of each input of its producer, roots have depth 0;
// (4) reference counts equal the references there are; (5) a value has at most one place for its
// bytes: its storage, or `kept` (while its storage is being written or is dying, `kept` counts).
// See docs/life-of-an-eviction.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/streams/stream_clocks.h"
#include "remat/lineage/labels.h"

namespace tidepool::remat {

struct Record;
struct Storage;
struct Value;

// One input of a record; a node of the value's list of consumers once the record is linked.
struct Edge {
  Value* value = nullptr;
  Record* record = nullptr;
  Edge* next = nullptr;
  Edge** link = nullptr;  // the pointer that points here; nullptr: not in the list
};

struct Value {
  uint32_t references = 0;
  uint32_t depth = 0;      // longest chain of records above it
  uint32_t uses = 0;       // reads that restorations under way have yet to do
  uint32_t locks = 0;      // those among them that also keep it from being evicted
  uint32_t component = 0;  // node of a policy's union-find; 0: none
  uint32_t kept_slot = 0;  // where KeptBytes lists it; meaningful while `kept`
  uint32_t scratch = 0;    // of a plan being built, or the mark of a walk
  uint32_t changed = 0;    // place in a policy's list of changes, from 1; 0: not there
  uint32_t output = 0;     // index among its producer's outputs
  RootReason reason = RootReason::kNone;
  bool restored = false;   // was evicted and came back; noted under chaos
  size_t bytes = 0;
  Storage* storage = nullptr;  // whose current contents it is; nullptr: a dead intermediate
  Record* producer = nullptr;  // nullptr: a root
  Edge* consumers = nullptr;
  void* kept = nullptr;  // bytes that the runtime owns: a ghost, or a retained root
  StreamUse hidden;      // the last use that the job does not know of (ReplayStreamOrder)

  // Its bytes are on the device, and nobody is about to change them.
  inline bool available() const;
  // It is the contents of a storage that the job can still see.
  inline bool live() const;
  inline bool live_and_evicted() const;
  // Where its bytes are. Requires: available().
  inline void* address() const;
};

// A search for room looks at all of them: what it reads is in the first cache line.
struct alignas(64) Storage {
  Value* current = nullptr;
  Storage* next = nullptr;   // list of resident storages with lineage; nullptr: in no list
  uint64_t last_access = 0;  // on the runtime's logical clock
  // Projected cost, ns: own and above, and below; each valid while its epoch is the policy's.
  uint64_t cost_above = 0, cost_below = 0;
  uint32_t above_epoch = 0, below_epoch = 0;
  uint32_t locks = 0;      // operators and plans that need its bytes where they are
  uint32_t versions = 0;   // in-place versions since a root or a full overwrite
  bool evicted = false;
  bool dead = false;       // the framework's storage is gone; freed when locks reaches 0
  bool dying = false;      // the backend said that it is; its death will be reported soon
  bool writing = false;    // an operator is writing its bytes
  bool escaped = false;
  bool fixed = false;      // its address was handed out: never evicted, but its contents are seen
  Role role = Role::kOther;
  Role observed_role = Role::kOther;  // the JobObserver's
  void* backend = nullptr;  // the framework's storage (PyTorch: c10::StorageImpl*, held weakly)
  void* address = nullptr;  // start of its bytes; nullptr while evicted
  void* notes = nullptr;    // the backend's own, on a parameter
  Storage* previous = nullptr;
  uint32_t step_seen = 0;  // StepHistory: the step that step_number is of
  uint32_t step_number = 0;
  uint32_t needed_below = 0;   // of a policy that looks ahead: a position, as expected at
  uint32_t needed_step = 0;
  uint32_t observed = 0;       // the JobObserver's
};

// Static facts of one kind of record, owned by the backend for the life of the process.
struct RecordType {
  const char* name = "";
  // Destroys a body. Runs under the lock: must not take it, nor run foreign code.
  void (*destroy_body)(void* body) = nullptr;
  bool draws = false;  // random numbers
};

// One operator call. Lives in one slab: Record, edges, outputs, body.
struct Record {
  static constexpr uint32_t kNoEdge = 0xffffffff;

  const RecordType* type = nullptr;
  uint32_t slab_grains = 0;  // of SlabPool
  uint32_t heap_grains = 0;  // what its body keeps on the heap, in the same unit
  uint32_t references = 0;  // outputs alive + who else holds it
  uint32_t depth = 0;
  uint32_t epoch = 0;       // mark of the last walk that saw it
  bool needed = false;      // scratch of that walk
  bool told_above = false;  // of Neighbourhood::for_each_frontier()
  bool overwrites = false;
  bool linked = false;
  uint64_t cost_ns = 0;
  uint64_t step = 0;        // step of the job in which it was recorded
  uint32_t edge_count = 0;
  uint32_t output_count = 0;
  // The operator writes into one storage. written_edge: which input it updates (kNoEdge with
  // `overwrites`: blank memory of overwritten_bytes). Its only output is the new version.
  uint32_t written_edge = kNoEdge;
  uint32_t evicted_output = 0;  // of DependentCut: one that was evicted when a walk last looked
  size_t overwritten_bytes = 0;
  Edge* edges = nullptr;
  Value** outputs = nullptr;  // entries are cleared when a value dies or is cut
  void* body = nullptr;

  bool writes() const { return overwrites || written_edge != kNoEdge; }
};

// A million records and as many values are alive at once in a long job.
static_assert(sizeof(Record) <= 96 && sizeof(Value) <= 96 && sizeof(Storage) == 128);

inline bool Value::live() const { return storage != nullptr && !storage->dying; }
inline bool Value::live_and_evicted() const { return live() && storage->evicted; }

inline bool Value::available() const {
  return kept != nullptr || (storage != nullptr && !storage->evicted && !storage->writing);
}

inline void* Value::address() const { return kept != nullptr ? kept : storage->address; }

}  // namespace tidepool::remat
