// reference_window_search: the window search as its reference implementation does it, for
// comparison only: prices are floating-point numbers, and of the windows that end at one block each
// is looked at before it is shrunk by one, so that the last window may be wider than it need be.
// Not exact. Pure.
#pragma once

#include <optional>
#include <span>

#include "allocator/search/window_search.h"

namespace tidepool::bench {

std::optional<Window> reference_window_search(std::span<const RoomItem> items, size_t bytes);

}  // namespace tidepool::bench
