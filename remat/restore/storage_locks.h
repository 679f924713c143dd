// StorageLocks: a scope for which storages, added one by one, are locked against eviction.
// Requires: the device's lock is held at both ends.
#pragma once

#include <span>

#include "absl/container/inlined_vector.h"
#include "remat/restore/contents.h"

namespace tidepool::remat {

class StorageLocks {
 public:
  explicit StorageLocks(Contents& contents) : contents_(contents) {}
  ~StorageLocks() { release(); }
  StorageLocks(const StorageLocks&) = delete;
  StorageLocks& operator=(const StorageLocks&) = delete;

  void add(Storage& storage) {
    contents_.lock(storage);
    storages_.push_back(&storage);
  }
  void release() {
    for (Storage* storage : storages_) contents_.unlock(*storage);
    storages_.clear();
  }
  std::span<Storage* const> all() const { return {storages_.data(), storages_.size()}; }

 private:
  Contents& contents_;
  absl::InlinedVector<Storage*, 8> storages_;
};

}  // namespace tidepool::remat
