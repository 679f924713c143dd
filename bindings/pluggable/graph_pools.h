// GraphPools: memory of captured graphs on one device. What is allocated while a graph is captured
// belongs to the graph's pool: freed, it may serve that pool's later requests on its stream, but
// nobody else until the pool is released, because every replay of the graph uses it again.
// Owns the records of pools and of their blocks; the arena, which must outlive it, owns the bytes.
// Thread safe; no lock is held while the arena or the device works.
// Invariants: (1) a pool's block is allocated in the arena until the pool is released and, if it
// was still in use then, freed by its user; (2) bytes go back to the arena only after the device
// has finished everything, and never during a capture.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "allocator/locks/mutex.h"
#include "cuda/device_arena.h"

namespace tidepool::pluggable {

using PoolId = std::pair<unsigned long long, unsigned long long>;  // as PyTorch names it
using StreamFilter = std::function<bool(device::driver::Stream)>;

class GraphPools {
 public:
  explicit GraphPools(device::DeviceArena& arena) : arena_(arena) {}

  // From now to end(), requests on streams that `filter` accepts are of this pool. A pool is
  // released as often as it was begun.
  void begin(PoolId id, StreamFilter filter);
  // Requires: begun. Throws: DeviceError, as the next.
  void end(PoolId id);
  // Requires: begun as often before.
  void release(PoolId id);

  // The pool that requests on a stream are of. Cheap while nothing is captured.
  std::optional<PoolId> pool_of(device::driver::Stream stream);
  // Throws: OutOfMemory; DeviceError.
  void* allocate(PoolId id, size_t bytes, device::driver::Stream stream);
  // False if no block of a pool starts there. Aborts if one does that was asked for with another
  // size or on another stream, or that was freed already.
  bool free(void* address, size_t bytes, device::driver::Stream stream);
  // A block that another stream uses serves no other request of its pool.
  void record_stream(void* address);

 private:
  struct PoolBlock {
    std::optional<PoolId> pool;  // none: the pool was released before the block was freed
    size_t requested_bytes = 0;
    size_t bytes = 0;
    device::driver::Stream stream = nullptr;
    bool live = true;
    bool shared = false;
  };
  struct Pool {
    size_t uses = 0;
    std::multimap<std::pair<device::driver::Stream, size_t>, void*> free;
  };

  void* take(Pool& pool, size_t bytes, device::driver::Stream stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives back what released pools held.
  void reclaim();

  device::DeviceArena& arena_;
  Mutex mutex_;
  std::vector<std::pair<PoolId, StreamFilter>> captures_ ABSL_GUARDED_BY(mutex_);
  std::map<PoolId, Pool> pools_ ABSL_GUARDED_BY(mutex_);
  std::vector<PoolId> released_ ABSL_GUARDED_BY(mutex_);  // not given back yet
  absl::flat_hash_map<void*, PoolBlock> blocks_ ABSL_GUARDED_BY(mutex_);
  std::atomic<size_t> capture_count_{0};
  std::atomic<size_t> block_count_{0};
};

}  // namespace tidepool::pluggable
