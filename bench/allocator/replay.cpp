#include "bench/allocator/replay.h"

#include <algorithm>
#include <vector>

#include "allocator/base/sizes.h"

namespace tidepool::bench {

bool replay(const Trace& trace, Peer& peer) {
  struct Live {
    void* address = nullptr;
    size_t bytes = 0;
    StreamId stream = StreamId::kDefault;
  };
  std::vector<Live> live(trace.blocks);
  bool complete = true;
  for (const TraceEvent& event : trace.events) {
    Live& block = live[event.block];
    if (event.allocates) {
      block = {peer.allocate(event.bytes, event.stream), event.bytes, event.stream};
      if (block.address == nullptr) {
        complete = false;
        break;
      }
    } else {
      peer.free(block.address, block.bytes, block.stream);
      block.address = nullptr;
    }
  }
  for (const Live& block : live) {
    if (block.address != nullptr) peer.free(block.address, block.bytes, block.stream);
  }
  return complete;
}

size_t smallest_device(const Trace& trace, const PeerFactory& make, size_t step) {
  constexpr size_t kMostTimes = 16;
  auto completes = [&](size_t steps) {
    const std::unique_ptr<Peer> peer = make(steps * step);
    return replay(trace, *peer);
  };
  size_t fails = (trace.live_peak_bytes + step - 1) / step - 1;  // steps; too few
  size_t works = fails + 1;
  while (!completes(works)) {
    if (works * step > kMostTimes * (trace.live_peak_bytes + step)) return 0;
    fails = works;
    works += std::max<size_t>(1, works / 4);
  }
  while (works - fails > 1) {
    const size_t middle = fails + (works - fails) / 2;
    (completes(middle) ? works : fails) = middle;
  }
  return works * step;
}

}  // namespace tidepool::bench
