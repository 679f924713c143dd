#include "bench/allocator/tidepool_peer.h"

namespace tidepool::bench {
namespace {

class PassedFence final : public Fence {
 public:
  bool passed() override { return true; }
  void wait() override {}
};

AllocatorConfig config_for(size_t device_bytes) {
  AllocatorConfig config;
  config.budget_bytes = device_bytes;
  config.page_bytes = TidepoolPeer::kPageBytes;
  config.alignment = 512;
  config.placement = kCoarsePlacement;
  return config;
}

}  // namespace

std::shared_ptr<Fence> InstantStreams::record(StreamId) { return std::make_shared<PassedFence>(); }

void InstantStreams::wait(StreamId, Fence&) {}

TidepoolPeer::TidepoolPeer(size_t device_bytes)
    : allocator_(space_, mutex_, config_for(device_bytes)) {
  allocator_.set_stream_order(&streams_);
}

}  // namespace tidepool::bench
