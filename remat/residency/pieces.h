// Pieces: which bytes operators have written of storages that they fill part by part, as a loop
// does that puts each step's result into a tensor made by `torch.empty`. Such contents have lineage
// from the first part on, but what no operator has written yet is whatever lay in that memory, and
// would come back as something else. So they stay until the last byte is written
// (Storage::in_pieces), and become a root where an operator reads more than what has been written.
// Not thread safe: the device's lock is held.
// Invariants (check_invariants()): (1) a storage has an entry if and only if it is `in_pieces`;
// (2) an entry's ranges are in order, not empty, and do not touch.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "remat/lineage/container_bytes.h"
#include "remat/lineage/lineage.h"

namespace tidepool::remat {

// The bytes from `begin` to `end`, without the latter, counted from the start of a storage.
struct ByteRange {
  size_t begin = 0, end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

class Pieces {
 public:
  // More ranges than this are not kept for a storage.
  static constexpr size_t kMostRanges = 1024;

  // Whether all of the bytes have been written.
  bool covers(const Storage& storage, std::span<const ByteRange> bytes) const;
  // Whether any of the bytes has been written.
  bool meets(const Storage& storage, std::span<const ByteRange> bytes) const;

  // Notes that the bytes have been written, of a storage whose filling has begun or begins now. It
  // is `in_pieces` afterwards unless nothing is missing. False: there are too many ranges, and the
  // storage is forgotten.
  bool add(Storage& storage, std::span<const ByteRange> bytes);

  // The storage has other contents, or none.
  void forget(Storage& storage) {
    if (storage.in_pieces) [[unlikely]]
      erase(storage);
  }

  // `storages`: how many are in_pieces.
  void check_invariants(size_t storages) const;
  size_t bookkeeping_bytes() const { return bytes_of(written_) + ranges_ * sizeof(ByteRange); }

 private:
  using Ranges = std::vector<ByteRange>;
  static void insert(Ranges& ranges, ByteRange fresh);
  void erase(Storage& storage);

  absl::flat_hash_map<const Storage*, Ranges> written_;
  size_t ranges_ = 0;  // of all storages
};

}  // namespace tidepool::remat
