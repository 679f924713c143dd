// Backend: how the runtime acts on the framework that runs the operators (PyTorch, or the
// simulator's, which hashes). Implementations state their own thread safety.
#pragma once

#include <cstddef>
#include <span>

#include "allocator/base/device_mutex.h"
#include "allocator/streams/stream_order.h"
#include "remat/lineage/lineage.h"

namespace tidepool::remat {

// One replay of a record. Addresses are starts of allocated blocks of the device's allocator.
struct Replay {
  const Record* record = nullptr;
  std::span<void* const> inputs;  // per edge of the record, in order
  // For a record that writes: the block to write into. It holds the old contents if the record
  // updates (edge written_edge stands for it), or nothing of worth if it overwrites.
  void* target = nullptr;
  // Per output of the record. In: the placeholder wanted() where the contents are needed, nullptr
  // where not. Out: the block with the contents, which now belongs to the runtime.
  // A record that writes has its result in `target`; outputs is empty for it.
  std::span<void*> outputs;

  static void* wanted() {
    static char placeholder;
    return &placeholder;
  }
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Runs the operator again with the recorded arguments, RNG and numeric state, and leaves all
  // state of the process as it was. On an exception nothing is owned by the runtime but what it
  // passed in. Throws: whatever the operator throws, OutOfMemory. Requires: lock not held.
  virtual void execute(const Replay& replay) = 0;

  // Takes the bytes away from the framework's storage, which afterwards answers reads with an
  // error and on its death calls Runtime::on_evicted_storage_freed. False if the storage is dying
  // already. Requires: lock held.
  virtual bool detach(Storage& storage) = 0;

  // Gives `address` to an evicted storage; ownership passes to the framework. False if the storage
  // is dying. Requires: lock held.
  virtual bool attach(Storage& storage, void* address) = 0;

  // The storage is no longer tracked: drop the weak reference to it. Requires: lock held.
  virtual void forget(Storage& storage) = 0;

  // For reports: the tracked storage in which the job accumulates the gradient of what is in
  // `storage`; nullptr where there is none, or another thread may be changing that. `threads`: so
  // many have run operators. Requires: lock held.
  virtual Storage* gradient_of(const Storage& storage, size_t threads) {
    static_cast<void>(storage);
    static_cast<void>(threads);
    return nullptr;
  }

  // Copies bytes between two blocks. Requires: lock not held.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;

  // What copying so many bytes takes, in the unit of operators' costs.
  virtual uint64_t copy_ns(size_t bytes) const { return bytes / 4; }

  // Work may go to several streams; the same answer for life.
  virtual bool has_streams() const { return false; }
  // The stream that execute() and copy() of the calling thread send their work to.
  virtual StreamId current_stream() const { return StreamId::kDefault; }

  // A hash of a block's first `bytes`, for checks; 0 where it cannot look. Requires: lock held.
  virtual uint64_t fingerprint(const void* address, size_t bytes) const {
    static_cast<void>(address);
    static_cast<void>(bytes);
    return 0;
  }

  // What bodies of records keep together, such as states of generators: bytes. Hot. Requires: lock
  // held.
  virtual size_t shared_bytes() const { return 0; }
  // What it keeps beside them for lineage and residency, but for contents. Requires: lock held.
  virtual size_t side_bytes() const { return 0; }

  // Memory is short: gives up what is only held for results to be evictable. True if it held
  // something. Requires: lock held; may release it.
  virtual bool give_up_memory(DeviceLock& lock) {
    static_cast<void>(lock);
    return false;
  }

  // Around a wait for other threads (PyTorch: releases Python's lock if this thread has it).
  virtual void* begin_wait() { return nullptr; }
  virtual void end_wait(void* token) { static_cast<void>(token); }
};

}  // namespace tidepool::remat
