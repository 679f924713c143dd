// Extents: which parts of a range of bytes are free. What is taken may lie in several pieces, so
// that all that is free can be used. Not thread safe.
// Invariants: (1) free pieces do not touch each other, and lie below the end; (2) what is free and
// what is taken together are the range up to the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace tidepool::remat {

struct Extent {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

class Extents {
 public:
  // At most `capacity` bytes are taken at a time.
  explicit Extents(uint64_t capacity) : capacity_(capacity) {}
  void grow(uint64_t bytes) { capacity_ += bytes; }

  // Takes pieces of `bytes` in all, in one piece where one is free that is large enough. nullopt:
  // there is not so much.
  std::optional<std::vector<Extent>> take(uint64_t bytes);
  void give(const std::vector<Extent>& pieces);

  uint64_t capacity() const { return capacity_; }
  uint64_t taken() const { return taken_; }
  uint64_t room() const { return capacity_ - taken_; }
  void check_invariants() const;

 private:
  void insert(Extent extent);

  uint64_t capacity_;
  uint64_t end_ = 0;  // nothing has been taken from here on
  uint64_t taken_ = 0;
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes
};

}  // namespace tidepool::remat
