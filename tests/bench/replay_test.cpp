#include "bench/allocator/replay.h"

#include "allocator/base/sizes.h"
#include "bench/allocator/linear_pool.h"
#include "bench/allocator/synthetic_traces.h"
#include "bench/allocator/tidepool_peer.h"
#include "tests/support/catch.h"

namespace tidepool::bench {
namespace {

// Counts bytes, and fails above the device's: the ideal allocator.
class PerfectPeer final : public Peer {
 public:
  explicit PerfectPeer(size_t device_bytes) : device_bytes_(device_bytes) {}
  void* allocate(size_t bytes, StreamId) override {
    if (live_ + bytes > device_bytes_) return nullptr;
    live_ += bytes;
    return this;
  }
  void free(void*, size_t bytes, StreamId) override { live_ -= bytes; }
  size_t reserved_peak_bytes() const override { return 0; }
  size_t live() const { return live_; }

 private:
  const size_t device_bytes_;
  size_t live_ = 0;
};

Trace two_blocks() {
  Trace trace;
  const uint32_t first = trace.allocate(3 * kMiB);
  trace.allocate(5 * kMiB);
  trace.free(first);
  trace.allocate(2 * kMiB);
  return trace;
}

TEST_CASE("a replay frees everything, whether it completes or not") {
  const Trace trace = two_blocks();
  CHECK(trace.live_peak_bytes == 8 * kMiB);
  PerfectPeer large(8 * kMiB);
  CHECK(replay(trace, large));
  CHECK(large.live() == 0);
  PerfectPeer small(8 * kMiB - 1);
  CHECK_FALSE(replay(trace, small));
  CHECK(small.live() == 0);
}

TEST_CASE("the smallest device of a perfect allocator is the peak") {
  const PeerFactory make = [](size_t bytes) { return std::make_unique<PerfectPeer>(bytes); };
  CHECK(smallest_device(two_blocks(), make, kMiB) == 8 * kMiB);
  CHECK(smallest_device(two_blocks(), make, 3 * kMiB) == 9 * kMiB);
  const PeerFactory half = [](size_t bytes) { return std::make_unique<PerfectPeer>(bytes / 2); };
  CHECK(smallest_device(two_blocks(), half, kMiB) == 16 * kMiB);
  const PeerFactory none = [](size_t) { return std::make_unique<PerfectPeer>(0); };
  CHECK(smallest_device(two_blocks(), none, kMiB) == 0);
}

TEST_CASE("peers complete the made-up traces on little more than their peak") {
  for (const Trace& trace : {training_trace(), varying_trace()}) {
    CAPTURE(trace.name);
    const size_t ours = smallest_device(
        trace, [](size_t bytes) { return std::make_unique<TidepoolPeer>(bytes); },
        TidepoolPeer::kPageBytes);
    CHECK(ours >= trace.live_peak_bytes);
    CHECK(ours <= trace.live_peak_bytes + trace.live_peak_bytes / 100);
    const size_t linear = smallest_device(
        trace, [](size_t bytes) { return std::make_unique<LinearPool>(bytes); },
        TidepoolPeer::kPageBytes);
    CHECK(linear >= trace.live_peak_bytes);
  }
}

}  // namespace
}  // namespace tidepool::bench
