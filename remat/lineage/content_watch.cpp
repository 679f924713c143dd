#include "remat/lineage/content_watch.h"

#include "allocator/base/fingerprint.h"

namespace tidepool::remat {
namespace {

// A storage that is found to be written unseen gets another value: each value is always looked at
// in one way.
uint64_t look_at(const Value& value) {
  return value.storage->written_unseen ? fingerprint(value.address(), value.bytes)
                                       : sampled_fingerprint(value.address(), value.bytes);
}

}  // namespace

void ContentWatch::read(const Storage& storage) {
  Value& value = *storage.current;
  if (value.watched) return;
  value.watched = true;
  seen_[&value] = look_at(value);
}

bool ContentWatch::is_changed(const Value& value) const {
  if (!value.watched || value.storage == nullptr || value.storage->writing) return false;
  return look_at(value) != seen_.at(&value);
}

}  // namespace tidepool::remat
