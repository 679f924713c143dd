// AllocatorConfig: the settings of one BudgetedAllocator.
// Plain data. Sizes are in bytes; a page is the unit in which memory is taken from the device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tidepool {

class AddressSpace;

struct AllocatorConfig {
  size_t budget_bytes = 0;  // hard cap on committed bytes
  // Below the cap memory is taken only while the device keeps so much for others: libraries,
  // contexts, other processes. Once it would not, requests are served as at the cap.
  size_t device_reserve_bytes = 0;
  size_t range_bytes = 0;   // addresses reserved; 0: 8 x budget, at least 64 pages
  size_t page_bytes = 0;    // the unit of commits; 0: by the budget, 4 KiB to 2 MiB
  size_t alignment = 64;    // unit of block sizes and addresses
  bool poison = false;      // for debugging: overwrite new, freed and evicted bytes
  bool coarse_placement = false;  // see placement.h
  bool allow_windows = true;      // make room by evicting windows
  bool allow_remap = true;        // make room by moving pages
  bool allow_moves = true;        // make room by moving contents, where the reclaimer can
  // DTR's loop instead of windows and selections: evict the least price by byte, one after the
  // other, until a free block, or free pages where they may be moved, serve the request.
  bool evict_singly = false;
  // What moving a page costs, in the unit of the reclaimer's costs. With measure_remaps, this
  // counts only until some moves were measured.
  uint64_t remap_ns_per_page = 0;
  bool measure_remaps = false;
  // A cap on the bytes that callers asked for, beside the one on pages. Where pages abound, as in a
  // simulation, bytes are then fungible: victims may lie anywhere, and go cheapest per byte first.
  size_t requested_limit_bytes = SIZE_MAX;
  bool one_zone = false;  // all blocks share the range: placement.h's zones are off
};

// The settings with every value that was left to the allocator filled in, fit for `space`.
// Throws: std::invalid_argument naming the field.
AllocatorConfig completed(AllocatorConfig config, const AddressSpace& space);

}  // namespace tidepool
