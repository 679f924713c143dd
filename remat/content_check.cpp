#include "remat/content_check.h"

namespace tidepool::remat {

void ContentCheck::evicted(const Value& value, const void* address) {
  if (enabled_) fingerprints_[&value] = backend_.fingerprint(address, value.bytes);
}

void ContentCheck::restored(const Value& value, const void* address) {
  if (!enabled_) return;
  const auto found = fingerprints_.find(&value);
  if (found == fingerprints_.end()) return;
  ++compared;
  if (found->second != backend_.fingerprint(address, value.bytes)) {
    ++different[value.producer != nullptr ? value.producer->type->name : "(a root)"];
  }
  fingerprints_.erase(found);
}

}  // namespace tidepool::remat
