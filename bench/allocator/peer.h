// Peer: an allocator as the benchmarks of this folder compare them: over a simulated device of a
// given size, which hands out addresses and no memory. Streams are small numbers; their work is
// over as soon as it is given, so that only what allocators do themselves is compared.
#pragma once

#include <cstddef>

#include "allocator/streams/stream_order.h"

namespace tidepool::bench {

class Peer {
 public:
  virtual ~Peer() = default;
  // Null if the device is too small. Thread safe, as free() is.
  virtual void* allocate(size_t bytes, StreamId stream = StreamId::kDefault) = 0;
  // Requires: allocate() gave it for these arguments.
  virtual void free(void* address, size_t bytes, StreamId stream = StreamId::kDefault) = 0;
  // Held from the device, at most so far.
  virtual size_t reserved_peak_bytes() const = 0;
};

}  // namespace tidepool::bench
