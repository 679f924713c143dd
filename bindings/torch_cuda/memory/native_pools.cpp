#include "bindings/torch_cuda/memory/native_pools.h"

#include <algorithm>
#include <cmath>

namespace tidepool::torch_cuda {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

thread_local bool t_is_trying = false;

}  // namespace

NativePools::Attempt::Attempt(bool is_try) { t_is_trying = is_try; }
NativePools::Attempt::~Attempt() { t_is_trying = false; }
bool NativePools::is_trying() { return t_is_trying; }

DeviceStats NativePools::statistics() const {
  DeviceStats stats = native_.getDeviceStats(device_);
  stats.num_ooms -= std::min<int64_t>(stats.num_ooms, tried_);
  return stats;
}

void NativePools::begin(MempoolId_t pool, StreamFilter filter,
                        std::optional<cudaStream_t> capturing) {
  std::lock_guard<std::mutex> guard(pools_mutex_);
  pools_.push_back({pool, std::move(filter), capturing, std::this_thread::get_id()});
  pool_count_ = pools_.size();
}

bool NativePools::end(MempoolId_t pool) {
  std::lock_guard<std::mutex> guard(pools_mutex_);
  auto found =
      std::find_if(pools_.begin(), pools_.end(), [&](const Pool& each) { return each.id == pool; });
  if (found == pools_.end()) return false;
  const bool capture = found->capturing.has_value();
  pools_.erase(found);
  pool_count_ = pools_.size();
  return capture;
}

bool NativePools::serves(cudaStream_t stream) {
  std::lock_guard<std::mutex> guard(pools_mutex_);
  return std::any_of(pools_.begin(), pools_.end(),
                     [&](const Pool& each) { return each.filter(stream); });
}

size_t NativePools::dismiss_captures() {
  std::lock_guard<std::mutex> guard(pools_mutex_);
  size_t dismissed = 0;
  for (Pool& each : pools_) {
    if (!each.capturing || each.thread != std::this_thread::get_id()) continue;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    if (cudaStreamIsCapturing(*each.capturing, &status) != cudaSuccess) {
      (void)cudaGetLastError();  // another stream is capturing, perhaps for this pool
      continue;
    }
    if (status != cudaStreamCaptureStatusNone) continue;
    each.capturing.reset();
    ++dismissed;
  }
  return dismissed;
}

void NativePools::note(const TraceEntry& entry) {
  changed_.store(true, std::memory_order_relaxed);
  switch (entry.action_) {
    case TraceEntry::SEGMENT_ALLOC:
    case TraceEntry::SEGMENT_MAP:
      reserved_ += entry.size_;
      break;
    case TraceEntry::SEGMENT_FREE:
    case TraceEntry::SEGMENT_UNMAP:
      reserved_ -= entry.size_;
      break;
    default:
      break;
  }
}

void NativePools::set_limit(size_t limit, size_t device_bytes) {
  limit_ = limit;
  device_bytes_ = device_bytes;
  settled_ = SIZE_MAX;  // so that settle() sets the arena's limit again
}

// PyTorch takes small requests from segments of 2 MiB and larger ones from 20 MiB, or, with
// expandable segments, from pieces of that size.
size_t NativePools::expected_growth(size_t bytes) {
  if (bytes <= kMiB) return 2 * kMiB;
  const size_t piece = 20 * kMiB;
  return (bytes + piece - 1) / piece * piece;
}

void NativePools::restrict_native(size_t bytes) {
  // PyTorch rounds the product of total and fraction down.
  const auto total = static_cast<double>(device_bytes_);
  double fraction = std::min(1.0, static_cast<double>(bytes) / total);
  while (fraction > 0 && static_cast<size_t>(fraction * total) > bytes) {
    fraction = std::nextafter(fraction, 0.0);
  }
  native_.setMemoryFraction(fraction, device_);
}

void NativePools::make_room(DeviceMemory& memory, size_t bytes) {
  // During a capture nothing is evicted, so that there is no room to be made.
  if (memory.allocator().is_stream_order_suspended()) return;
  try {
    // The block may begin and end within pages, so it takes one page more.
    const size_t whole = bytes + memory.allocator().page_bytes();
    memory.free(memory.allocate(whole, nullptr, PlacementHint::kTransient));
  } catch (const OutOfMemory&) {
    // There is not as much to evict; what is free is given back all the same.
  } catch (const DeviceError&) {
    // A capture began, in which streams cannot be ordered; what is free is given back all the same.
  }
  memory.allocator().give_back_free_pages();
}

void NativePools::enter(DeviceMemory& memory, size_t growth) {
  std::lock_guard<std::mutex> guard(mutex_);
  ++requests_;
  growths_ += growth;
  const size_t limit = limit_;
  const size_t wanted = std::min(limit, reserved() + growths_);
  const size_t ours = memory.set_limit(limit - wanted);
  restrict_native(limit - std::min(limit, ours));
}

void NativePools::count_again(DeviceMemory& memory) {
  std::lock_guard<std::mutex> guard(count_mutex_);  // not in note(): PyTorch holds its own there
  if (!changed_.exchange(false)) return;
  const DeviceStats stats = native_.getDeviceStats(device_);
  // The bytes that another thread's request adds right now may be lost here. They are in growths_
  // until that thread counts again itself.
  reserved_ = static_cast<size_t>(stats.reserved_bytes[0].current);
  memory.set_native(stats);
}

void NativePools::leave(DeviceMemory& memory, size_t growth) {
  count_again(memory);
  std::lock_guard<std::mutex> guard(mutex_);
  growths_ -= growth;
  // Requests that are still under way may yet take what they were granted.
  if (--requests_ > 0) return;
  const size_t now = reserved();
  restrict_native(now);
  memory.set_limit(limit_ - std::min<size_t>(limit_, now));
  settled_ = now;
}

void NativePools::settle(DeviceMemory& memory) {
  if (changed_.load(std::memory_order_relaxed)) [[unlikely]]
    count_again(memory);
  if (settled_.load(std::memory_order_relaxed) == reserved()) [[likely]]
    return;
  std::lock_guard<std::mutex> guard(mutex_);
  if (requests_ > 0) return;
  const size_t now = reserved();
  memory.set_limit(limit_ - std::min<size_t>(limit_, now));
  settled_ = now;
}

}  // namespace tidepool::torch_cuda
