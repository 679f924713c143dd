// Replaying a trace, and how small a device can be for it.
#pragma once

#include <functional>
#include <memory>

#include "bench/allocator/peer.h"
#include "bench/allocator/trace.h"

namespace tidepool::bench {

using PeerFactory = std::function<std::unique_ptr<Peer>(size_t device_bytes)>;

// Replays all events, then frees what is left. False if the peer ran out of memory on the way.
bool replay(const Trace& trace, Peer& peer);

// The smallest device, in steps of `step` bytes, on which the trace completes, found by halving
// from its peak of live bytes to 16 times that: exact if no larger device fails. 0: none does.
size_t smallest_device(const Trace& trace, const PeerFactory& make, size_t step);

}  // namespace tidepool::bench
