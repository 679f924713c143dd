// Request: what one call of allocate() wants, and what has been tried for it. Outcome: how an
// attempt to serve a request ended. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/blocks/block.h"

namespace tidepool {

struct Request {
  size_t asked_bytes = 0;
  size_t bytes = 0;  // the size of its block: asked_bytes, rounded up
  Zone zone = Zone::kTransient;
  StreamId stream = StreamId::kDefault;
  End end = End::kLow;  // at which its block is cut from a free one

  // How many more windows may be emptied for this request by moving contents.
  int moves_left = 16;
  // Blocks above this size do not move for this request, because there was no place for one.
  size_t move_limit_bytes = SIZE_MAX;
  // Whether others are evicted to make places that blocks move to, which is the last resort. It
  // stays set when the request is tried again: there were no free places for it.
  bool evicts_for_places = false;
  // Whether others may be evicted for that also where a block that moves could be evicted itself.
  bool trades_places = false;
  // Whether the device refused to move pages for this request. Then only windows are looked for,
  // which take no device call.
  bool device_failed = false;
  // Nothing else can serve the request: the device is asked again for what it has refused, and what
  // it should keep for others is taken, too.
  bool takes_reserve = false;
};

enum class Outcome : uint8_t {
  kServed,
  kNothing,        // this attempt cannot serve the request
  kRetry,          // something was freed, so that an earlier attempt may serve the request now
  kDeviceRefused,  // the device had no memory for new pages, which lowers the limit on them
  kDeviceFailed,   // the device refused something else about pages
  kOrderFailed,    // the device refused to order streams
};

}  // namespace tidepool
