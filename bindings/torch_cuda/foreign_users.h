// ForeignUsers: blocks of one device that streams of other devices use as well (record_stream with
// such a stream; peer access makes it possible). The allocator of a device orders only that one's
// streams: before such a block is freed, its own stream is made to wait for the others.
// Thread safe.
#pragma once

#include <c10/cuda/CUDAStream.h>

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace tidepool::torch_cuda {

class ForeignUsers {
 public:
  bool any() const { return count_.load(std::memory_order_relaxed) > 0; }
  void add(const void* address, c10::cuda::CUDAStream user);

  // What `owner`, a stream of the block's device, does from now on comes after what the users have
  // been given so far; forgets them. False if that cannot be had, as while a graph is captured: the
  // block must not be used again.
  bool order_before_free(const void* address, cudaStream_t owner, c10::DeviceIndex device);

 private:
  std::atomic<size_t> count_{0};
  std::mutex mutex_;
  std::unordered_map<const void*, std::vector<c10::cuda::CUDAStream>> users_;
};

}  // namespace tidepool::torch_cuda
