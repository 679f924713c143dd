// ContentCheck: compares, where it is switched on, the fingerprints of contents that are evicted
// with those of what comes back. Under chaos differences are counted by the operator that made the
// contents, so that a wrong replay is named where it happens, not where it is noticed; and it
// counts how many of each operator's results were evicted and came back, which shows what chaos has
// tried. In a job that replays operators on a user's word, a difference is an error instead, before
// the job can read the contents. Not thread safe: the device's lock is held. While it is off, it
// costs a branch.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "remat/lineage/backend.h"
#include "remat/lineage/container_bytes.h"
#include "remat/lineage/lineage.h"

namespace tidepool::remat {

class ContentCheck {
 public:
  explicit ContentCheck(const Backend& backend) : backend_(backend) {}
  // Counts, for chaos.
  void enable_counts() { counts_ = true; }
  // Has is_equal() compare.
  void enable_refusals() { refuses_ = true; }

  // The job sees only the first bytes of a value: the others come back as they may.
  void shows(Value& value, size_t bytes) {
    if (!counts_ && !refuses_) return;
    shown_[&value] = bytes;
    value.checked = true;
  }
  // `fresh` is what an operator has made of `old` in place.
  void updated(const Value& old, Value& fresh) {
    if (!shown_.empty() && shown_bytes_of(old) < old.bytes) [[unlikely]]
      shows(fresh, shown_bytes_of(old));
  }
  // `fresh` is what a record has made. What it has read of contents that show nothing are bytes
  // that may come back otherwise, so that it shows nothing, either.
  void made_by(const Record& record, Value& fresh) {
    if (shown_.empty() || record.type->knows_scratch) [[likely]]
      return;
    for (size_t k = 0; k < record.edge_count; ++k) {
      const Value& read = *record.edges[k].value;
      if (read.bytes > 0 && shown_bytes_of(read) == 0) return shows(fresh, 0);
    }
  }

  // `value`, with its bytes at `address`, is about to be evicted.
  void evicted(Value& value, const void* address);
  // Whether the contents at `address`, which are about to be given to an evicted value, are those
  // that were evicted. True unless refusals are enabled.
  bool is_equal(const Value& value, const void* address) const;
  // The value dies, and another one may get its address, or it has other contents.
  void forget(Value& value) {
    if (!value.checked) [[likely]]
      return;
    fingerprints_.erase(&value);
    shown_.erase(&value);
    value.checked = false;
  }
  // The contents of `value` have come back to `address`.
  void restored(Value& value, const void* address);
  // An operator of this type has made contents that can be made again.
  void made(const RecordType& type) {
    if (counts_) [[unlikely]]
      ++coverage_[&type].made;
  }

  // How many contents an operator has made, and how many of them were evicted and came back.
  struct Coverage {
    uint64_t made = 0, restored = 0;
  };
  std::map<std::string, Coverage> coverage() const;  // by operator
  size_t bookkeeping_bytes() const {
    return bytes_of(fingerprints_) + bytes_of(shown_) + bytes_of(coverage_);
  }

  uint64_t compared = 0;
  std::map<std::string, uint64_t> different;  // operator -> how often

 private:
  size_t shown_bytes_of(const Value& value) const {
    const auto found = shown_.find(&value);
    return found != shown_.end() ? found->second : value.bytes;
  }
  uint64_t fingerprint(const Value& value, const void* address) const {
    return backend_.fingerprint(address, shown_bytes_of(value));
  }

  const Backend& backend_;
  bool counts_ = false;
  bool refuses_ = false;
  absl::flat_hash_map<const Value*, uint64_t> fingerprints_;
  absl::flat_hash_map<const Value*, size_t> shown_;  // of values that do not show all
  absl::flat_hash_map<const RecordType*, Coverage> coverage_;
};

}  // namespace tidepool::remat
