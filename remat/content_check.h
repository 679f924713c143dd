// ContentCheck: under chaos, fingerprints of what is evicted, compared with what comes back;
// counted by the operator that made the contents, so that a wrong replay has a name where it
// happens, and not where it is noticed.
// Not thread safe: the device's lock is held. Off, it costs a branch.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "remat/backend.h"
#include "remat/lineage.h"

namespace tidepool::remat {

class ContentCheck {
 public:
  explicit ContentCheck(const Backend& backend) : backend_(backend) {}
  void enable() { enabled_ = true; }
  bool enabled() const { return enabled_; }

  // `value`, with its bytes at `address`, is about to be evicted.
  void evicted(const Value& value, const void* address);
  // It has come back to `address`.
  void restored(const Value& value, const void* address);

  uint64_t compared = 0;
  std::map<std::string, uint64_t> different;  // operator -> how often

 private:
  const Backend& backend_;
  bool enabled_ = false;
  absl::flat_hash_map<const Value*, uint64_t> fingerprints_;
};

}  // namespace tidepool::remat
