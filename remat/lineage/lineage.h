// Lineage: storages, values (versions of a storage's contents), records (operator calls) and the
// edges between them. Plain data; LineageStore allocates, links and frees it.
// A record refers to values and holds no storage alive. A value is alive while a storage holds it
// as its current contents or a record reads it. Not thread safe: the device's lock is held.
// Invariants (LineageStore::check_invariants()): (1) the value of an evicted storage has a producer
// or a copy; or its bytes are being moved, and it keeps them (Value::kept); (2) every edge of a
// linked record is in its value's consumer list, and no other edge is; (3) a value's depth is
// greater than that of each input of its producer, roots have depth 0; (4) reference counts equal
// the references there are; (5) a value's bytes are in its storage or in `kept`; if both have
// bytes, because the storage is being written or is dying, `kept` counts. See
// docs/life-of-an-eviction.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/streams/stream_clocks.h"
#include "remat/lineage/labels.h"

namespace tidepool::remat {

struct Record;
struct Storage;
struct Value;

// One input of a record. Once the record is linked, its edges are in their values' lists of
// consumers.
struct Edge {
  Value* value = nullptr;
  Record* record = nullptr;
  Edge* next = nullptr;
  Edge** link = nullptr;  // the pointer in the list that points here; nullptr: not in the list
};

struct Value {
  uint32_t references = 0;    // by storages, edges, and whoever works on it
  uint32_t depth = 0;         // length of the longest chain of records that it was made by
  uint32_t uses = 0;          // reads that restorations under way have yet to do
  uint32_t locks = 0;         // those of the uses that also keep it from being evicted
  uint32_t component = 0;     // the policy's: a node of its union-find; 0: none
  uint32_t kept_slot = 0;     // its place in Residency's list of kept bytes, while `kept`
  uint32_t scratch = 0;       // for a restoration that is being planned, or the mark of a walk
  uint32_t changed_slot = 0;  // the policy's: place in its list of changes, from 1; 0: not in it
  uint32_t output = 0;        // index among its producer's outputs
  RootReason reason = RootReason::kNone;
  bool copied = false;        // a tier has a copy of its bytes (Copies)
  bool restored : 1 = false;  // it was evicted and came back; noted only under chaos
  bool watched : 1 = false;   // ContentWatch has a fingerprint of it
  bool checked : 1 = false;   // ContentCheck knows something of it
  bool lost : 1 = false;   // its bytes were written unseen (ContentWatch), and it has no producer
  bool spare : 1 = false;  // a retained root that only resident values need: it goes first
  size_t bytes = 0;
  Storage* storage = nullptr;  // has it as its contents; nullptr: it is a dead intermediate
  Record* producer = nullptr;  // nullptr: a root
  Edge* consumers = nullptr;
  // Bytes that the runtime owns: of a ghost, of a retained root, or of a storage that is being
  // moved.
  void* kept = nullptr;
  // The last use by a replay or a copy of ours, which the job's streams do not know of
  // (ReplayStreamOrder).
  StreamUse hidden_use;

  // Whether its bytes are on the device, and nobody is about to change them.
  inline bool available() const;
  // Whether its bytes are somewhere, on the device or in a tier, so that no operator has to be
  // replayed for them.
  bool has_bytes() const { return copied || available(); }
  // Whether it is the contents of a storage that the job can still see.
  inline bool live() const;
  inline bool live_and_evicted() const;
  // Where its bytes are. Requires: available().
  inline void* address() const;
};

// A search for room looks at all storages; the fields that it reads are in the first cache line.
struct alignas(64) Storage {
  Value* current = nullptr;  // its contents; nullptr once it is dead
  // In Residency's list of resident storages with lineage; nullptr: it is not in it.
  Storage* next = nullptr;
  uint64_t last_access = 0;  // on the runtime's logical clock
  // The policy's: cached costs of what lies above, its own included, and of what lies below, in ns.
  // Each is valid while its generation is the policy's present one.
  uint64_t cost_above = 0, cost_below = 0;
  uint32_t above_generation = 0, below_generation = 0;
  uint32_t locks = 0;     // operators, moves and callers of restore() that need its bytes in place
  uint32_t versions = 0;  // in-place versions since a root or a full overwrite
  bool evicted = false;   // it has no bytes now: they were given up, or are being moved
  bool dead = false;      // the framework's storage is gone; this one goes when `locks` is 0
  bool dying = false;     // the backend has said so; its death will be reported soon
  bool writing = false;   // an operator is writing its bytes
  bool escaped = false;   // a raw pointer to it left our sight for good: it is never evicted again
  bool fixed = false;     // its address was handed out: it stays, but operators' writes are seen
  bool prefetched = false;        // it was brought back, and no operator has read it since
  bool will_be_refilled = false;  // the job frees its bytes only to save room, and fills it again
  Role role = Role::kOther;
  Role observed_role = Role::kOther;  // the JobObserver's: the role that it has noted last
  bool written_unseen = false;        // it was found to have been (ContentWatch)
  bool absent = false;     // its bytes were given up, and count among Residency::absent_bytes()
  bool unwatched = false;  // what notices unseen writes has to be set again (Backend::watch)
  bool written_by_several : 1 = false;  // operators of several threads write its bytes at once
  bool in_pieces : 1 = false;           // some of its bytes were never written (Pieces): it stays
  // How many operators that have returned may go on using it; it has escaped until they end. 0:
  // none, or it has escaped for good.
  uint16_t users_left = 0;
  void* framework_storage = nullptr;  // PyTorch: its c10::StorageImpl, held weakly
  void* address = nullptr;            // start of its bytes; nullptr while evicted
  void* backend_notes =
      nullptr;                  // what the backend keeps for a parameter: how its gradient is found
  Storage* previous = nullptr;  // as `next`
  uint32_t step_seen = 0;       // StepHistory's: the step in which step_number is its number
  uint32_t step_number = 0;
  // A policy's that looks ahead: where something evicted below it is needed, and in which
  // expectation.
  uint32_t needed_below = 0;
  uint32_t needed_step = 0;
  uint32_t observer_number = 0;  // the JobObserver's: its own number of the storage

  bool escaped_for_good() const { return escaped && users_left == 0; }
};

// Static facts of one kind of record, owned by the backend for the life of the process.
struct RecordType {
  const char* name = "";
  // Destroys a body. Runs under the lock: must not take it, nor run foreign code.
  void (*destroy_body)(void* body) = nullptr;
  bool draws = false;  // random numbers
  // Of contents that are scratch (ContentCheck::shows() none of them) it reads what was written.
  bool knows_scratch = false;
};

// One operator call. Lives in one slab: Record, edges, outputs, body.
struct Record {
  static constexpr uint32_t kNoEdge = 0xffffffff;

  const RecordType* type = nullptr;
  uint32_t slab_grains = 0;  // of SlabPool
  uint32_t heap_grains = 0;  // what its body keeps on the heap, in the same unit
  uint32_t references = 0;   // outputs alive + who else holds it
  uint32_t depth = 0;
  uint32_t mark = 0;        // of the last walk that saw it (LineageStore::next_mark())
  bool needed = false;      // that walk's: something that is needed lies below
  bool told_above = false;  // see Neighbourhood::for_each_frontier()
  bool overwrites = false;
  bool linked = false;
  uint64_t cost_ns = 0;
  uint64_t step = 0;  // step of the job in which it was recorded
  uint32_t edge_count = 0;
  uint32_t output_count = 0;
  // For an operator that writes into a storage, whose new version is its only output. written_edge:
  // the input that it updates; kNoEdge with `overwrites`: it needs only overwritten_bytes of
  // memory.
  uint32_t written_edge = kNoEdge;
  uint32_t evicted_output = 0;  // DependentCut's: an output that was evicted at its last look
  size_t overwritten_bytes = 0;
  Edge* edges = nullptr;
  Value** outputs = nullptr;  // entries are cleared when a value dies or is cut
  void* body = nullptr;

  bool writes() const { return overwrites || written_edge != kNoEdge; }
};

// In a long job a million records and as many values are alive at once.
static_assert(sizeof(Record) <= 96 && sizeof(Value) <= 96 && sizeof(Storage) == 128);

inline bool Value::live() const { return storage != nullptr && !storage->dying; }
inline bool Value::live_and_evicted() const { return live() && storage->evicted; }

inline bool Value::available() const {
  return kept != nullptr || (storage != nullptr && !storage->evicted && !storage->writing);
}

inline void* Value::address() const { return kept != nullptr ? kept : storage->address; }

}  // namespace tidepool::remat
