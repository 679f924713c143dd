#include "remat/lineage/content_check.h"

namespace tidepool::remat {

void ContentCheck::evicted(Value& value, const void* address) {
  if (!counts_ && !refuses_) return;
  fingerprints_[&value] = fingerprint(value, address);
  value.checked = true;
}

void ContentCheck::restored(Value& value, const void* address) {
  if (!counts_ && !refuses_) return;
  if (counts_ && value.producer != nullptr && !value.restored) {
    value.restored = true;
    ++coverage_[value.producer->type].restored;
  }
  const auto found = fingerprints_.find(&value);
  if (found == fingerprints_.end()) return;
  ++compared;
  // Where differences are refused, is_equal() has compared already.
  if (!refuses_ && found->second != fingerprint(value, address)) {
    ++different[value.producer != nullptr ? value.producer->type->name : "(a root)"];
  }
  fingerprints_.erase(found);
}

bool ContentCheck::is_equal(const Value& value, const void* address) const {
  if (!refuses_) [[likely]]
    return true;
  const auto found = fingerprints_.find(&value);
  return found == fingerprints_.end() || found->second == fingerprint(value, address);
}

std::map<std::string, ContentCheck::Coverage> ContentCheck::coverage() const {
  std::map<std::string, Coverage> by_name;
  for (const auto& [type, coverage] : coverage_) {
    Coverage& sum = by_name[type->name];  // types may share a name
    sum.made += coverage.made;
    sum.restored += coverage.restored;
  }
  return by_name;
}

}  // namespace tidepool::remat
