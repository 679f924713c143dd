// Pieces: which bytes operators have written of storages that they fill part by part, as a loop
// does that puts each step's result into a tensor made by `torch.empty`. Such contents have lineage
// from the first part on, but what no operator has written yet is whatever lay in that memory, and
// would come back as something else. So they stay until the last byte is written
// (Storage::in_pieces), and become a root where an operator reads more than what has been written.
// Not thread safe: the device's lock is held.
// Invariants (check_invariants()): (1) a storage has an entry if and only if it is `in_pieces`;
// (2) an entry's ranges are in order, not empty, do not touch, and lie within its period.
#pragma once

#include <cstddef>
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

// Ranges that do not repeat (`period` is 0), or that do every `period` bytes from the start of a
// storage to its end, and end within the first period. So lie the columns of a matrix.
struct ByteRanges {
  std::vector<ByteRange> ranges;
  size_t period = 0;
};

class Pieces {
 public:
  // More ranges than this are not kept for a storage.
  static constexpr size_t kMostRanges = 1024;

  // Whether all of the bytes have been written; false, too, where it cannot be told, because only
  // the bytes repeat, or with another period than what has been written.
  bool covers(const Storage& storage, const ByteRanges& bytes) const;
  // Whether any of the bytes has been written; true where it cannot be told.
  bool meets(const Storage& storage, const ByteRanges& bytes) const;

  // Notes that the bytes have been written, of a storage whose filling has begun or begins now. It
  // is `in_pieces` afterwards unless nothing is missing. False: there are too many ranges, or these
  // repeat in another way than the earlier ones, and the storage is forgotten.
  bool add(Storage& storage, const ByteRanges& bytes);

  // The storage has other contents, or none.
  void forget(Storage& storage) {
    if (storage.in_pieces) [[unlikely]]
      erase(storage);
  }

  // `storages`: how many are in_pieces.
  void check_invariants(size_t storages) const;
  size_t bookkeeping_bytes() const { return bytes_of(written_) + ranges_ * sizeof(ByteRange); }

 private:
  static void insert(std::vector<ByteRange>& ranges, ByteRange fresh);
  void erase(Storage& storage);

  absl::flat_hash_map<const Storage*, ByteRanges> written_;
  size_t ranges_ = 0;  // of all storages
};

}  // namespace tidepool::remat
