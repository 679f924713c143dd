// NativePools: the part of one device's memory that PyTorch's own allocator serves, which is pools
// of graphs and MemPools, and memory from before us. Both allocators share the budget: before
// PyTorch's allocator is asked, its limit is set to what our arena leaves; afterwards the arena's
// limit is set to what PyTorch's allocator leaves.
// Does not own the allocator or the DeviceMemory. Thread safe; no lock is held while PyTorch's
// allocator works, because that may wait for Python.
// Invariant: the limits of both allocators together are at most the budget at every instant, unless
// PyTorch's allocator held more than the budget before us.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/torch_cuda/memory/device_memory.h"

namespace tidepool::torch_cuda {

using c10::MempoolId_t;
using c10::cuda::CUDACachingAllocator::CUDAAllocator;
using StreamFilter = std::function<bool(cudaStream_t)>;

class NativePools {
 public:
  NativePools(CUDAAllocator& native, c10::DeviceIndex device) : native_(native), device_(device) {}

  // From now on requests on streams that `filter` accepts go to a pool of PyTorch's allocator.
  // Where it is not known whether the pool is for a capture, `capturing` is the stream that would
  // be capturing.
  void begin(MempoolId_t pool, StreamFilter filter,
             std::optional<cudaStream_t> capturing = std::nullopt);
  // Undoes begin(). Returns whether the pool was taken to be for a capture until now.
  bool end(MempoolId_t pool);
  bool any() const { return pool_count_.load(std::memory_order_relaxed) > 0; }
  bool serves(cudaStream_t stream);
  // Returns the number of pools that turn out to be for no capture, though they were taken to be so
  // far: the thread that began them asks for memory, and their stream is not capturing.
  size_t dismiss_captures();

  // The bytes that PyTorch's allocator holds from the device. That allocator tells note() of
  // changes, under its own lock.
  size_t reserved() const { return reserved_.load(std::memory_order_relaxed); }
  void note(const TraceEntry& entry);
  void set_reserved(size_t bytes) { reserved_ = bytes; }

  // Sets the bytes of the device that may be used, and all of its bytes, of which PyTorch's limits
  // are fractions.
  void set_limit(size_t limit, size_t device_bytes);

  // Whether an error of PyTorch's allocator is the request's own, or one that the caller tells of.
  enum class Errors : bool { kTold, kNotTold };
  // Has PyTorch's allocator serve a request of `bytes`. Throws: c10::OutOfMemoryError. Of several
  // attempts only the last one counts as out of memory.
  template <class Allocate>
  auto allocate(DeviceMemory& memory, size_t bytes, Allocate&& allocate,
                Errors errors = Errors::kTold) {
    const size_t usual = expected_growth(bytes);
    const size_t most = 2 * expected_growth(2 * bytes);
    for (const auto& [growth, evicts] :
         {std::pair(usual, false), std::pair(usual, true), std::pair(most, true)}) {
      if (evicts) make_room(memory, growth);
      enter(memory, growth);
      const Attempt attempt(growth != most || errors == Errors::kNotTold);
      try {
        auto block = allocate();
        leave(memory, growth);
        memory.set_native(statistics());
        return block;
      } catch (const c10::OutOfMemoryError&) {
        leave(memory, growth);
        if (is_trying()) ++tried_;
        if (growth == most) throw;
      } catch (...) {
        leave(memory, growth);
        throw;
      }
    }
    TORCH_INTERNAL_ASSERT(false);
  }
  // True on a thread whose request PyTorch's allocator may refuse without anybody being told.
  static bool is_trying();
  // What PyTorch's allocator counts, without such refusals; and its counters have been reset.
  DeviceStats statistics() const;
  void reset_tried() { tried_ = 0; }
  // The arena may have what PyTorch's allocator has given back, and its statistics count what that
  // one holds now. Cheap where nothing has changed.
  void settle(DeviceMemory& memory);

 private:
  // An attempt of the calling thread, which is no more than that where it is a mere try.
  class Attempt {
   public:
    explicit Attempt(bool is_try);
    ~Attempt();
    Attempt(const Attempt&) = delete;
    Attempt& operator=(const Attempt&) = delete;
  };
  // How much PyTorch's allocator may take from the device to serve a request.
  static size_t expected_growth(size_t bytes);
  // Evicts from the arena, and gives back to the device, the bytes that PyTorch's allocator is
  // short of, as far as that is possible.
  static void make_room(DeviceMemory& memory, size_t bytes);
  void enter(DeviceMemory& memory, size_t growth);
  void leave(DeviceMemory& memory, size_t growth);
  // Corrects note()'s count: it is told of what PyTorch's allocator is about to do, which may fail.
  void count_again(DeviceMemory& memory);
  // Sets the limit of PyTorch's allocator. Requires: mutex_ held.
  void restrict_native(size_t bytes);

  CUDAAllocator& native_;
  const c10::DeviceIndex device_;
  std::atomic<size_t> reserved_{0};
  std::atomic<int64_t> tried_{0};  // refusals that nobody was told of
  std::atomic<size_t> limit_{SIZE_MAX};
  size_t device_bytes_ = 0;

  struct Pool {  // one to which requests go now
    MempoolId_t id;
    StreamFilter filter;
    std::optional<cudaStream_t> capturing;
    std::thread::id thread;
  };
  std::mutex pools_mutex_;
  std::vector<Pool> pools_;
  std::atomic<size_t> pool_count_{0};

  std::mutex count_mutex_;  // comes before PyTorch's allocator's own mutex
  std::mutex mutex_;
  size_t requests_ = 0;  // the requests under way
  size_t growths_ = 0;   // the sum of their growths
  std::atomic<bool> changed_{false};
  std::atomic<size_t> settled_{0};  // reserved() when the arena's limit was last set
};

}  // namespace tidepool::torch_cuda
