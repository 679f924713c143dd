// ForeignUsers: the streams of other devices that use blocks of one device. Peer access makes such
// use possible, and record_stream with such a stream announces it. A device's allocator orders only
// streams of that device, so before such a block is freed, its own stream is made to wait for the
// others.
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

  // Makes `owner`, a stream of the block's device, wait for the work that the block's users have
  // been given so far, and forgets them. Returns false if that is impossible, as while a graph is
  // captured; the block must not be used again then.
  bool order_before_free(const void* address, cudaStream_t owner, c10::DeviceIndex device);

 private:
  std::atomic<size_t> count_{0};
  std::mutex mutex_;
  std::unordered_map<const void*, std::vector<c10::cuda::CUDAStream>> users_;
};

}  // namespace tidepool::torch_cuda
