// LinearPool: a pool of the shape of RMM's pool_memory_resource, written for comparison only: free
// blocks of each stream in one list in address order, best fit by looking at all of them, merging
// with neighbours at every free, growing by halves of what the device has left. A shape, not RMM:
// it says what linear lists cost, nothing about that library's newest version.
// Thread safe: one lock. Addresses only, without memory.
// Invariants: (1) a stream's free blocks are in ascending order and do not touch, but where chunks
// meet; (2) free and allocated bytes add up to reserved bytes.
#pragma once

#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "bench/allocator/peer.h"

namespace tidepool::bench {

class LinearPool final : public Peer {
 public:
  static constexpr size_t kAlignment = 256;
  static constexpr const char* kName = "linear_pool";

  explicit LinearPool(size_t device_bytes) : device_bytes_(device_bytes) {}

  void* allocate(size_t bytes, StreamId stream = StreamId::kDefault) override;
  void free(void* address, size_t bytes, StreamId stream = StreamId::kDefault) override;
  // Chunks stay for good.
  size_t reserved_peak_bytes() const override { return reserved_bytes_; }

  void check_invariants() const;

 private:
  struct Block {
    uintptr_t begin = 0;
    size_t bytes = 0;
    bool begins_chunk = false;
  };
  using FreeList = std::list<Block>;

  std::optional<Block> take(FreeList& list, size_t bytes);
  static void insert(FreeList& list, const Block& block);
  std::optional<Block> take_from_others(StreamId stream, size_t bytes);
  std::optional<Block> grow(FreeList& list, size_t bytes);

  const size_t device_bytes_;
  size_t reserved_bytes_ = 0;
  uintptr_t next_chunk_ = uintptr_t{1} << 44;
  mutable std::mutex mutex_;
  std::map<StreamId, FreeList> free_;
  std::unordered_map<uintptr_t, Block> allocated_;
};

}  // namespace tidepool::bench
