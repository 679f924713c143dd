// NativePools: what PyTorch's own allocator still serves on one device (pools of graphs and
// MemPools, memory that was there before us), and its share of the common budget: its limit is set
// to what our arena leaves before it is asked, and the arena's to what it holds afterwards.
// Does not own the allocator or the DeviceMemory. Thread safe; no lock is held while PyTorch's
// allocator works, which may wait for Python.
// Invariant: arena's limit + its limit <= the budget at every instant, but where it held more than
// the budget before we came.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/torch_cuda/device_memory.h"

namespace tidepool::torch_cuda {

using c10::MempoolId_t;
using c10::cuda::CUDACachingAllocator::CUDAAllocator;
using StreamFilter = std::function<bool(cudaStream_t)>;

class NativePools {
 public:
  NativePools(CUDAAllocator& native, c10::DeviceIndex device) : native_(native), device_(device) {}

  // Requests on streams that `filter` accepts go to a pool of PyTorch's from now on. Where nobody
  // says whether a capture is about to begin, `capturing` is the stream on which it would.
  void begin(MempoolId_t pool, StreamFilter filter,
             std::optional<cudaStream_t> capturing = std::nullopt);
  // True if it was taken for a capture to the end.
  bool end(MempoolId_t pool);
  bool any() const { return pool_count_.load(std::memory_order_relaxed) > 0; }
  bool serves(cudaStream_t stream);
  // How many pools are for no capture, of those that were taken for one so far: the thread that
  // began them asks for memory, and the stream is not capturing.
  size_t dismiss_captures();

  // What PyTorch's allocator holds from the device; note() hears of changes under its lock.
  size_t reserved() const { return reserved_.load(std::memory_order_relaxed); }
  void note(const TraceEntry& entry);
  void set_reserved(size_t bytes) { reserved_ = bytes; }

  // The device's memory, of which PyTorch's limits are fractions; and how much of it may be used.
  void set_limit(size_t limit, size_t device_bytes);
  size_t limit() const { return limit_; }

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
  // Evicts from the arena, and gives back, as much as PyTorch's allocator is short of, where that
  // can be had.
  static void make_room(DeviceMemory& memory, size_t bytes);
  void enter(DeviceMemory& memory, size_t growth);
  void leave(DeviceMemory& memory, size_t growth);
  // note() counts what PyTorch's allocator says it is about to do, which may then fail.
  void count_again(DeviceMemory& memory);
  // Requires: mutex_ held.
  void restrict_native(size_t bytes);

  CUDAAllocator& native_;
  const c10::DeviceIndex device_;
  std::atomic<size_t> reserved_{0};
  std::atomic<int64_t> tried_{0};  // refusals that nobody was told of
  std::atomic<size_t> limit_{SIZE_MAX};
  size_t device_bytes_ = 0;

  struct Pool {  // requests go to it
    MempoolId_t id;
    StreamFilter filter;
    std::optional<cudaStream_t> capturing;
    std::thread::id thread;
  };
  std::mutex pools_mutex_;
  std::vector<Pool> pools_;
  std::atomic<size_t> pool_count_{0};

  std::mutex count_mutex_;  // taken before PyTorch's allocator takes its own
  std::mutex mutex_;
  size_t requests_ = 0;  // under way
  size_t growths_ = 0;   // of those, in all
  std::atomic<bool> changed_{false};
  std::atomic<size_t> settled_{0};  // reserved(), when the arena's limit was set
};

}  // namespace tidepool::torch_cuda
