// Backend: the interface by which the runtime acts on the framework that runs the operators
// (PyTorch, or a simulated one). Implementations state their own thread safety.
#pragma once

#include <cstddef>
#include <span>

#include "allocator/locks/device_mutex.h"
#include "allocator/streams/stream_order.h"
#include "remat/lineage/lineage.h"

namespace tidepool::remat {

// One replay of a record. Addresses are starts of allocated blocks of the device's allocator.
struct Replay {
  const Record* record = nullptr;
  std::span<void* const> inputs;  // one for each edge of the record, in order
  // The block that a record that writes has to write into. If the record updates, the block holds
  // the old contents, for which the edge written_edge stands; if it overwrites, the block may hold
  // anything.
  void* target = nullptr;
  // One for each output of the record; empty for a record that writes, whose result is in `target`.
  // Before the replay: the placeholder wanted() if the contents are needed, nullptr if not. After
  // it: the block with the contents, which belongs to the runtime then.
  std::span<void*> outputs;
  // How many bytes each output has. The record's own values may die while the operator runs.
  std::span<const size_t> output_bytes;

  static void* wanted() {
    static char placeholder;
    return &placeholder;
  }
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Runs the operator again with the recorded arguments, random state and numeric state, and leaves
  // all state of the process as it was. After an exception the runtime owns only what it passed in.
  // Throws: whatever the operator throws; OutOfMemory. Requires: lock not held.
  virtual void execute(const Replay& replay) = 0;

  // Takes the bytes away from the framework's storage. Afterwards reads of it give an error, and
  // when it dies it calls Runtime::on_evicted_storage_freed(). False if the storage is dying
  // already. Requires: lock held.
  virtual bool detach(Storage& storage) = 0;

  // Gives `address` to an evicted storage; ownership passes to the framework. False if the storage
  // is dying. Requires: lock held.
  virtual bool attach(Storage& storage, void* address) = 0;

  // Drops the weak reference to a storage that is tracked no longer. Requires: lock held.
  virtual void forget(Storage& storage) = 0;

  // Watches the storage for writes that no operator shows. What uses the watch up notes it as
  // `unwatched`; this is called when nothing uses the storage any more. False: the watch before has
  // not ended yet, so that this has to be called again. Requires: lock held.
  virtual bool watch(Storage& storage) {
    static_cast<void>(storage);
    return true;
  }

  // For reports: the tracked storage in which the job accumulates the gradient of the parameter in
  // `storage`; nullptr if there is none, or if another thread may be changing it. `threads`: how
  // many threads have run operators. Requires: lock held.
  virtual Storage* gradient_of(const Storage& storage, size_t threads) {
    static_cast<void>(storage);
    static_cast<void>(threads);
    return nullptr;
  }

  // Copies bytes between two blocks. Requires: lock not held.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;

  // How long copying so many bytes takes, in the unit of operators' costs.
  virtual uint64_t copy_ns(size_t bytes) const { return bytes / 4; }

  // Whether work may go to several streams. Never changes.
  virtual bool has_streams() const { return false; }
  // The stream to which execute() and copy() send their work when this thread calls them.
  virtual StreamId current_stream() const { return StreamId::kDefault; }

  // A hash of a block's first `bytes`, for checks; 0 if the backend cannot read them. Requires:
  // lock held.
  virtual uint64_t fingerprint(const void* address, size_t bytes) const {
    static_cast<void>(address);
    static_cast<void>(bytes);
    return 0;
  }

  // Whether the host can read contents at their addresses whenever no kernel is writing them.
  // Never changes.
  virtual bool host_reads_contents() const { return false; }

  // The bytes that bodies of records share, such as states of generators. Called for each record.
  // Requires: lock held.
  virtual size_t shared_bytes() const { return 0; }
  // The bytes that the backend keeps for lineage and residency beside bodies of records and
  // contents. Requires: lock held.
  virtual size_t side_bytes() const { return 0; }

  // Gives up memory that is held only to make results evictable, because memory is short. True if
  // there was any. Requires: lock held; may release it.
  virtual bool give_up_memory(DeviceLock& lock) {
    static_cast<void>(lock);
    return false;
  }

  // These stand around a wait for other threads. (PyTorch's releases Python's lock, if this thread
  // has it.)
  virtual void* begin_wait() { return nullptr; }
  virtual void end_wait(void* token) { static_cast<void>(token); }
};

}  // namespace tidepool::remat
