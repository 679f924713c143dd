// Versions: gives a storage that gets other contents, or ends, its next version. Whatever reads the
// old contents is finished or protected first.
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

  // Prepares a storage, which is resident and locked, for other contents: finishes or protects
  // whatever reads the present ones, and makes its value a fresh root for `reason`.
  void cut(Storage& storage, RootReason reason, DeviceLock& lock);

  // Notices present contents, which are resident and locked, that were written unseen since an
  // operator read them (ContentWatch). They are other contents from then on: what was made from the
  // old ones stays where it is, and cannot be restored where it was evicted.
  void heed_unseen_write(Storage& storage, DeviceLock& lock);

  // Whether the present contents may be overwritten: no restoration reads them, and they have a
  // producer or no readers.
  static bool may_be_written(const Storage& storage) {
    const Value& value = *storage.current;
    return value.uses == 0 && (value.producer != nullptr || value.consumers == nullptr);
  }

  // Waits until no restoration reads the contents. True if the lock was released.
  bool wait_until_unread(Storage& storage, DeviceLock& lock);

  // Makes values roots that were made from the contents after an operator had begun to change
  // these: whoever read them did so in a race, and keeps what it has got.
  void abandon_readers(Storage& storage);

  // Enters a record whose operator has run into its inputs' lists of readers.
  void link(Record& record);

  // Start a new version of contents that have changed: one without lineage, or output 0 of
  // `record`.
  void start_root_version(Storage& storage, RootReason reason);
  void start_recorded_version(Storage& storage, Record& record);
  // The same for an operator that has written these bytes, and read none of them, of contents that
  // are filled piece by piece (Pieces).
  void start_piece(Storage& storage, Record& record, const ByteRanges& written);

  // Ends a storage that the framework has freed. `address`: its bytes; nullptr if it was evicted.
  // True: the bytes are kept, and the caller must not free them.
  bool end_storage(Storage* storage, void* address);

  uint64_t snapshots = 0;  // copies of old contents so far

 private:
  bool protect_dependents(Storage& storage, RootReason reason, DeviceLock& lock);
  bool keep_snapshot(Storage& storage, RootReason reason, DeviceLock& lock);
  void give_up_written_unseen(Storage& storage);
  void replace_value(Storage& storage, Value* fresh, void* snapshot);

  Contents& contents_;
  Restorer& restorer_;
};

}  // namespace tidepool::remat
