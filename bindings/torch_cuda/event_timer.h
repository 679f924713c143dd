// EventTimer: OperatorTimer by pairs of CUDA events around some calls of each kind: the first few,
// then fewer and fewer, as those of a first step are long: kernels are loaded, and the host falls
// behind the device. The shortest counts. A call in which the allocator had to make room is no
// sample: pages are mapped and contents copied between its events then.
// Results are fetched when they are there; nothing is ever waited for. Not used while a graph is
// captured.
// Owns its events and the table of costs; never destroyed. Thread safe.
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
  // `allocator` must outlive it.
  EventTimer(c10::DeviceIndex device, const BudgetedAllocator& allocator)
      : device_(device), allocator_(allocator) {}

  Call begin(const remat::RecordType&, const remat::Record*, uint64_t timing_key) override;
  uint64_t end(const Call& call, size_t bytes) override;

 private:
  // Of each kind calls are timed until there are so many samples, among so many first calls; then
  // those whose number is a power of two.
  static constexpr uint64_t kFirstSamples = 4;
  static constexpr uint64_t kFirstCalls = 64;
  static constexpr size_t kMostPending = 64;
  static constexpr size_t kMostKinds = 1 << 20;
  // For what has not been measured: a launch, and memory at a rate that GPUs of today have.
  static constexpr uint64_t kLaunchNs = 3000;
  static constexpr uint64_t kBytesPerNs = 1500;

  struct Cost {
    uint64_t calls = 0;
    uint64_t samples = 0;
    uint64_t least_ns = 0;  // 0: no sample has arrived
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
