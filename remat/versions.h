// Versions: what happens to values when a storage gets other contents, or ends: who reads the old
// ones is finished or protected first, and a new version stands in their place.
// Owns nothing. Not thread safe: the device's lock is held; functions that take a DeviceLock& may
// release it for a while.
#pragma once

#include <cstdint>

#include "remat/restore/contents.h"
#include "remat/restore/restorer.h"

namespace tidepool::remat {

class Versions {
 public:
  Versions(Contents& contents, Restorer& restorer) : contents_(contents), restorer_(restorer) {}

  // `storage`, resident and locked, is about to get other contents: whoever reads the present ones
  // is finished or protected when this returns, and its value is a fresh root for `reason`.
  void cut(Storage& storage, RootReason reason, DeviceLock& lock);

  // True if the present contents may be overwritten: no plan reads them, and they have a producer
  // or no readers.
  static bool may_be_written(const Storage& storage) {
    const Value& value = *storage.current;
    return value.uses == 0 && (value.producer != nullptr || value.consumers == nullptr);
  }

  // Waits for a plan that reads the contents. True if it released the lock.
  bool wait_until_unread(Storage& storage, DeviceLock& lock);

  // The contents were changed by an operator that began when nobody read them; whoever has read
  // them since did so in a race, and keeps what it has got.
  void abandon_readers(Storage& storage);

  // Enters a record whose operator has run into its inputs' lists of readers.
  void link(Record& record);

  // The contents have changed: a new version without lineage, or made by output 0 of `record`.
  void start_root_version(Storage& storage, RootReason reason);
  void start_recorded_version(Storage& storage, Record& record);

  // The framework's storage is gone, with its bytes at `address` (nullptr: it was evicted). True:
  // the bytes are kept.
  bool end_storage(Storage* storage, void* address);

  uint64_t snapshots = 0;  // copies of old contents so far

 private:
  void* protect_dependents(Storage& storage, DeviceLock& lock);
  void* snapshot(Storage& storage, DeviceLock& lock);
  void replace_value(Storage& storage, Value* fresh, void* snapshot);

  Contents& contents_;
  Restorer& restorer_;
};

}  // namespace tidepool::remat
