// EventTimer: an OperatorTimer with pairs of CUDA events around some calls of each kind, which the
// timing key tells apart: around the first few, then around fewer and fewer. The shortest time
// counts, because the calls of a first step take long: kernels are loaded, and the host falls
// behind the device. A call in which the allocator had to make room does not count: between its
// events pages were mapped and contents copied. Times are fetched once they are there; nothing is
// waited for. While a graph is captured, the timer is not used.
// Owns its events and the table of costs; is never destroyed. Thread safe.
#pragma once

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <deque>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "allocator/budgeted_allocator.h"
#include "bindings/torch/base/operator_timer.h"

namespace tidepool::torch_cuda {

class EventTimer final : public torch_glue::OperatorTimer {
 public:
  // Requires: `allocator` outlives the timer.
  EventTimer(c10::DeviceIndex device, const BudgetedAllocator& allocator)
      : device_(device), allocator_(allocator) {}

  Call begin(const remat::RecordType&, const remat::Record*, uint64_t timing_key) override;
  uint64_t end(const Call& call, size_t bytes) override;

 private:
  // The first kFirstCalls calls of each kind are timed until there are kFirstSamples samples; later
  // calls are timed if their number is a power of two.
  static constexpr uint64_t kFirstSamples = 4;
  static constexpr uint64_t kFirstCalls = 64;
  static constexpr size_t kMostPending = 64;
  static constexpr size_t kMostKinds = 1 << 20;
  // The estimate for a kind without samples: a launch, and memory traffic at the bandwidth of
  // today's GPUs.
  static constexpr uint64_t kLaunchNs = 3000;
  static constexpr uint64_t kBytesPerNs = 1500;

  struct Cost {
    uint64_t calls = 0;
    uint64_t samples = 0;
    uint64_t least_ns = 0;  // 0 until a sample has arrived
  };
  struct Sample {
    uint64_t timing_key;
    cudaEvent_t start;
    cudaEvent_t stop;
  };

  // The functions below require mutex_ held.
  cudaEvent_t take_event();
  void fetch();

  const c10::DeviceIndex device_;
  const BudgetedAllocator& allocator_;
  std::mutex mutex_;
  absl::flat_hash_map<uint64_t, Cost> costs_;
  std::deque<Sample> pending_;
  std::vector<cudaEvent_t> idle_;
};

}  // namespace tidepool::torch_cuda
