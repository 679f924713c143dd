#include "bench/allocator/linear_pool.h"

#include <algorithm>
#include <iterator>

#include "allocator/base/check.h"
#include "allocator/base/sizes.h"

namespace tidepool::bench {

void* LinearPool::allocate(size_t bytes, StreamId stream) {
  bytes = round_up(bytes, kAlignment);
  std::lock_guard lock(mutex_);
  FreeList& own = free_[stream];
  std::optional<Block> block = take(own, bytes);
  if (!block) block = take_from_others(stream, bytes);
  if (!block) block = grow(own, bytes);
  if (!block) return nullptr;
  allocated_[block->begin] = *block;
  return reinterpret_cast<void*>(block->begin);
}

void LinearPool::free(void* address, size_t bytes, StreamId stream) {
  std::lock_guard lock(mutex_);
  auto found = allocated_.find(reinterpret_cast<uintptr_t>(address));
  TIDEPOOL_CHECK(found != allocated_.end() && found->second.bytes == round_up(bytes, kAlignment),
                 "%p is no block of %zu bytes", address, bytes);
  insert(free_[stream], found->second);
  allocated_.erase(found);
}

// Best fit: the smallest block that is large enough; what is left over stays in the list.
std::optional<LinearPool::Block> LinearPool::take(FreeList& list, size_t bytes) {
  auto best = list.end();
  for (auto block = list.begin(); block != list.end(); ++block) {
    if (block->bytes < bytes) continue;
    if (best == list.end() || block->bytes < best->bytes) best = block;
    if (best->bytes == bytes) break;
  }
  if (best == list.end()) return std::nullopt;
  Block taken = *best;
  taken.bytes = bytes;
  if (best->bytes == bytes) {
    list.erase(best);
  } else {
    *best = {best->begin + bytes, best->bytes - bytes, false};
  }
  return taken;
}

void LinearPool::insert(FreeList& list, const Block& block) {
  auto next = std::find_if(list.begin(), list.end(),
                           [&](const Block& each) { return each.begin > block.begin; });
  auto made = list.insert(next, block);
  if (next != list.end() && !next->begins_chunk && made->begin + made->bytes == next->begin) {
    made->bytes += next->bytes;
    list.erase(next);
  }
  if (made == list.begin() || made->begins_chunk) return;
  auto before = std::prev(made);
  if (before->begin + before->bytes != made->begin) return;
  before->bytes += made->bytes;
  list.erase(made);
}

// First a block of another stream, then, since none has one, all streams' blocks merged into one
// list. (The stream waits for the others: here their work is over at once.)
std::optional<LinearPool::Block> LinearPool::take_from_others(StreamId stream, size_t bytes) {
  for (auto& [other, list] : free_) {
    if (other == stream) continue;
    if (std::optional<Block> block = take(list, bytes)) return block;
  }
  FreeList& own = free_[stream];
  for (auto& [other, list] : free_) {
    if (other == stream) continue;
    for (const Block& block : list) insert(own, block);
    list.clear();
  }
  return take(own, bytes);
}

std::optional<LinearPool::Block> LinearPool::grow(FreeList& list, size_t bytes) {
  const size_t left = device_bytes_ - reserved_bytes_;
  if (bytes > left) return std::nullopt;
  const size_t chunk = std::max(bytes, round_down(left / 2, kAlignment));
  insert(list, {next_chunk_, chunk, true});
  next_chunk_ += chunk + kAlignment;  // chunks do not touch
  reserved_bytes_ += chunk;
  return take(list, bytes);
}

void LinearPool::check_invariants() const {
  std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (const auto& [stream, list] : free_) {
    uintptr_t end = 0;
    for (const Block& block : list) {
      TIDEPOOL_CHECK(block.begin > end || (block.begin == end && block.begins_chunk),
                     "(1) a block at %zx after one to %zx", block.begin, end);
      end = block.begin + block.bytes;
      bytes += block.bytes;
    }
  }
  for (const auto& [begin, block] : allocated_) bytes += block.bytes;
  TIDEPOOL_CHECK(bytes == reserved_bytes_, "(2) %zu bytes of %zu", bytes, reserved_bytes_);
}

}  // namespace tidepool::bench
