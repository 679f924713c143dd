// StreamId: names one of a device's streams.
#pragma once

#include <cstdint>

namespace tidepool {

// Streams order work on a device, in the numbers that the allocator knows them by: small, and
// counted from 0. The CPU has one.
enum class StreamId : uint32_t { kDefault = 0 };

}  // namespace tidepool
