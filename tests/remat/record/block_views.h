// Blocks as observers of an allocator hear of them, made by hand.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/base/allocator_observer.h"

namespace tidepool::remat {

inline BlockView block(uintptr_t address, size_t bytes) {
  BlockView view;
  view.address = reinterpret_cast<const void*>(address);
  view.requested_bytes = bytes;
  return view;
}

}  // namespace tidepool::remat
