// StreamId: names one of a device's streams.
#pragma once

#include <cstdint>

namespace tidepool {

// A stream runs the work that it is given in order. The allocator numbers a device's streams from 0
// on, so that tables can be indexed by them. The CPU has one stream.
enum class StreamId : uint32_t { kDefault = 0 };

}  // namespace tidepool
