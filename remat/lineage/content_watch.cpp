#include "remat/lineage/content_watch.h"

#include "allocator/base/fingerprint.h"

namespace tidepool::remat {

ContentWatch::Seen ContentWatch::look_at(const void* address, size_t bytes, bool whole) {
  return {whole ? fingerprint(address, bytes) : sampled_fingerprint(address, bytes), whole};
}

void ContentWatch::read(const Storage& storage) {
  Value& value = *storage.current;
  if (value.watched) return;
  value.watched = true;
  seen_[&value] = look_at(storage.address, value.bytes, storage.written_unseen);
}

bool ContentWatch::is_changed(const Value& value) const {
  if (!value.watched || value.storage == nullptr || value.storage->writing) return false;
  const Seen& seen = seen_.at(&value);
  return look_at(value.address(), value.bytes, seen.whole).fingerprint != seen.fingerprint;
}

}  // namespace tidepool::remat
