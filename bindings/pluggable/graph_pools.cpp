#include "bindings/pluggable/graph_pools.h"

#include <algorithm>

#include "allocator/base/check.h"

namespace tidepool::pluggable {

// A freed block serves a request that leaves at most this part of it unused.
constexpr size_t kWastedShare = 8;

void GraphPools::begin(PoolId id, StreamFilter filter) {
  {
    const MutexLock lock(mutex_);
    captures_.emplace_back(id, std::move(filter));
    ++pools_[id].uses;
    ++capture_count_;
  }
  arena_.allocator().suspend_stream_order();
}

void GraphPools::end(PoolId id) {
  {
    const MutexLock lock(mutex_);
    auto capture = std::find_if(captures_.begin(), captures_.end(),
                                [id](const auto& each) { return each.first == id; });
    TIDEPOOL_CHECK(capture != captures_.end(), "pool (%llu, %llu) ends, which did not begin",
                   id.first, id.second);
    captures_.erase(capture);
    --capture_count_;
  }
  arena_.allocator().resume_stream_order();
  reclaim();
}

void GraphPools::release(PoolId id) {
  {
    const MutexLock lock(mutex_);
    auto pool = pools_.find(id);
    TIDEPOOL_CHECK(pool != pools_.end() && pool->second.uses > 0,
                   "pool (%llu, %llu) is released more often than begun", id.first, id.second);
    if (--pool->second.uses > 0) return;
    released_.push_back(id);
  }
  reclaim();
}

void GraphPools::reclaim() {
  {
    const MutexLock lock(mutex_);
    if (released_.empty() || !captures_.empty()) return;
  }
  // The last replays may be running, on streams that nobody named to us.
  arena_.synchronize();
  std::vector<void*> freed;
  {
    const MutexLock lock(mutex_);
    if (!captures_.empty()) return;  // one has begun; the last end() comes back
    for (PoolId id : released_) {
      auto pool = pools_.find(id);
      if (pool == pools_.end() || pool->second.uses > 0) continue;  // begun again
      pools_.erase(pool);
      absl::erase_if(blocks_, [&](auto& entry) {
        auto& [address, block] = entry;
        if (block.pool != id) return false;
        block.pool.reset();
        if (block.live) return false;
        freed.push_back(address);
        return true;
      });
    }
    released_.clear();
    block_count_ = blocks_.size();
  }
  std::sort(freed.begin(), freed.end());  // not the table's order
  for (void* address : freed) arena_.free(address);
}

std::optional<PoolId> GraphPools::pool_of(device::driver::Stream stream) {
  if (capture_count_.load(std::memory_order_relaxed) == 0) [[likely]]
    return std::nullopt;
  const MutexLock lock(mutex_);
  for (const auto& [id, filter] : captures_) {
    if (filter(stream)) return id;
  }
  return std::nullopt;
}

void* GraphPools::take(Pool& pool, size_t bytes, device::driver::Stream stream) {
  auto found = pool.free.lower_bound({stream, bytes});
  if (found == pool.free.end() || found->first.first != stream) return nullptr;
  const size_t block_bytes = found->first.second;
  if (block_bytes - bytes > block_bytes / kWastedShare) return nullptr;
  void* address = found->second;
  pool.free.erase(found);
  PoolBlock& block = blocks_.at(address);
  block.requested_bytes = bytes;
  block.live = true;
  return address;
}

void* GraphPools::allocate(PoolId id, size_t bytes, device::driver::Stream stream) {
  {
    const MutexLock lock(mutex_);
    if (void* address = take(pools_[id], bytes, stream)) return address;
  }
  void* address = arena_.allocate(bytes, stream);
  const size_t block_bytes = arena_.block_bytes(address);
  const MutexLock lock(mutex_);
  blocks_[address] = {id, bytes, block_bytes, stream, true, false};
  block_count_ = blocks_.size();
  return address;
}

bool GraphPools::free(void* address, size_t bytes, device::driver::Stream stream) {
  if (block_count_.load(std::memory_order_relaxed) == 0) [[likely]]
    return false;
  {
    const MutexLock lock(mutex_);
    auto found = blocks_.find(address);
    if (found == blocks_.end()) return false;
    PoolBlock& block = found->second;
    TIDEPOOL_CHECK(block.live, "%p, of a graph's pool, is freed twice", address);
    TIDEPOOL_CHECK(block.requested_bytes == bytes && block.stream == stream,
                   "%p is freed as %zu bytes of stream %p, but is %zu bytes of stream %p", address,
                   bytes, static_cast<void*>(stream), block.requested_bytes,
                   static_cast<void*>(block.stream));
    if (block.pool) {
      block.live = false;
      if (!block.shared) {
        pools_.at(*block.pool).free.emplace(std::pair{stream, block.bytes}, address);
      }
      return true;
    }
    blocks_.erase(found);
    block_count_ = blocks_.size();
  }
  arena_.free(address);
  return true;
}

void GraphPools::record_stream(void* address) {
  if (block_count_.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  const MutexLock lock(mutex_);
  auto found = blocks_.find(address);
  if (found != blocks_.end()) found->second.shared = true;
}

}  // namespace tidepool::pluggable
