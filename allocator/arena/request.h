// Request: what one call of allocate() wants, with what has been tried for it; and how an attempt
// to serve it ended.
// Plain data.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/heap/block.h"

namespace tidepool {

struct Request {
  size_t asked_bytes = 0;
  size_t bytes = 0;  // rounded up: what its block has
  Zone zone = Zone::kTransient;
  StreamId stream = StreamId::kDefault;
  End end = End::kLow;  // of the free block that it is cut from

  // How many more windows may have their contents moved away for this request.
  int moves_left = 16;
  // Larger blocks do not move for this request: there was no place for one.
  size_t move_limit_bytes = SIZE_MAX;
  // Blocks move to places where others are evicted: the last resort.
  bool evicts_for_places = false;
  // The device refused to move pages for this request: a window takes no device call.
  bool device_failed = false;
};

enum class Outcome : uint8_t {
  kServed,
  kNothing,        // this attempt cannot serve the request
  kRetry,          // something was freed, which a free block may have come of
  kDeviceRefused,  // the device had no memory for new pages, which lowers the limit on them
  kDeviceFailed,   // the device refused something else about pages
  kOrderFailed,    // the device refused to order streams
};

}  // namespace tidepool
