// ContentWatch: notices contents that were written behind the runtime's back since an operator read
// them: through an address that was handed out and kept, or by code that writes unannounced. It has
// a fingerprint of what the first reader was given, sampled until a storage was once found to be
// written so, and whole from then on; a sample notices what writes most of a tensor, not a few
// elements. Only where the host can read contents at once (Backend::host_reads_contents()).
// Not thread safe: the device's lock is held.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "remat/lineage/backend.h"
#include "remat/lineage/container_bytes.h"
#include "remat/lineage/lineage.h"

namespace tidepool::remat {

class ContentWatch {
 public:
  explicit ContentWatch(const Backend& backend) : enabled_(backend.host_reads_contents()) {}
  // Has all contents watched that no operator has made, not only those whose address was handed
  // out; for where raw accesses are not noticed.
  void watch_roots() { watches_roots_ = true; }

  bool watches(const Storage& storage) const {
    const bool is_root = watches_roots_ && storage.current->producer == nullptr;
    return enabled_ && (storage.fixed || is_root) && !storage.escaped;
  }
  // An operator that is recorded reads the contents. Requires: they are available.
  void read(const Storage& storage);
  // Whether the contents that `value` stands for have changed since an operator first read them.
  // False where they are not watched, or in no storage. Requires: they are available.
  bool is_changed(const Value& value) const;
  // The value dies, and another one may get its address; or it gets other contents.
  void forget(Value& value) {
    if (value.watched) [[unlikely]]
      seen_.erase(&value);
    value.watched = false;
  }
  size_t bookkeeping_bytes() const { return bytes_of(seen_); }

  uint64_t unseen_writes = 0;  // how often contents were found changed

 private:
  const bool enabled_;
  bool watches_roots_ = false;
  absl::flat_hash_map<const Value*, uint64_t> seen_;
};

}  // namespace tidepool::remat
