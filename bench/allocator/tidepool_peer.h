// TidepoolPeer: our BudgetedAllocator as CUDA jobs use it (512-byte alignment, pages of 2 MiB,
// streams) on a simulated device.
#pragma once

#include <memory>

#include "allocator/budgeted_allocator.h"
#include "allocator/space/simulated_space.h"
#include "bench/allocator/peer.h"

namespace tidepool::bench {

// Streams whose work is over at once.
class InstantStreams final : public StreamOrder {
 public:
  std::shared_ptr<Fence> record(StreamId stream) override;
  void wait(StreamId stream, Fence& fence) override;
  void finish() override {}
};

class TidepoolPeer final : public Peer {
 public:
  static constexpr size_t kPageBytes = size_t{2} << 20;
  static constexpr const char* kName = "tidepool";

  // Requires: at least one page.
  explicit TidepoolPeer(size_t device_bytes);

  void* allocate(size_t bytes, StreamId stream = StreamId::kDefault) override {
    try {
      return allocator_.allocate(bytes, PlacementHint::kTransient, stream);
    } catch (const OutOfMemory&) {
      return nullptr;
    }
  }
  void free(void* address, size_t, StreamId = StreamId::kDefault) override {
    allocator_.free(address);
  }
  size_t reserved_peak_bytes() const override {
    return allocator_.statistics().reserved_peak_bytes;
  }

  BudgetedAllocator& allocator() { return allocator_; }
  DeviceMutex& mutex() { return mutex_; }

 private:
  SimulatedSpace space_{kPageBytes};
  InstantStreams streams_;
  DeviceMutex mutex_;
  BudgetedAllocator allocator_;
};

}  // namespace tidepool::bench
