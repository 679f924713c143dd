// AllocatorConfig: the settings of one BudgetedAllocator.
// Plain data. Sizes are in bytes; a page is the unit in which memory is taken from the device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/blocks/placement.h"

namespace tidepool {

class AddressSpace;
class RoomStrategy;

// AllocatorConfig::search_ns_per_block where memory is the host's: about what was measured among
// thousands of blocks. It is a constant, so that the same requests always have the same answers.
inline constexpr uint64_t kHostSearchNsPerBlock = 50;

struct AllocatorConfig {
  size_t budget_bytes = 0;  // hard cap on committed bytes
  // Below the cap memory is taken only while the device keeps so much for others: libraries,
  // contexts, other processes. Once it would not, requests are served as at the cap.
  size_t device_reserve_bytes = 0;
  size_t range_bytes = 0;  // addresses reserved; 0: 8 x budget, at least 64 pages
  size_t page_bytes = 0;   // the unit of commits; 0: by the budget, 4 KiB to 2 MiB
  size_t alignment = 64;   // unit of block sizes and addresses
  bool poison = false;     // for debugging: overwrite new, freed and evicted bytes
  Placement placement;
  bool allow_windows = true;  // make room by evicting windows
  bool allow_remap = true;    // make room by moving pages
  bool allow_moves = true;    // make room by moving contents, where the reclaimer can
  // What moving a page costs, and what the wait for the device costs, each time before pages move;
  // in the unit of the reclaimer's costs. With measure_remaps, they count only until some moves
  // were measured.
  uint64_t remap_ns_per_page = 0;
  uint64_t drain_ns = 0;
  bool measure_remaps = false;
  // What a search among all blocks takes for each of them, in the same unit, where requests wait
  // for it; 0 where they do not, because the device works meanwhile.
  uint64_t search_ns_per_block = 0;
  RoomStrategy* strategy = nullptr;  // outlives the allocator
};

// The settings with every value that was left to the allocator filled in, fit for `space`.
// Throws: std::invalid_argument naming the field.
AllocatorConfig completed(AllocatorConfig config, const AddressSpace& space);

}  // namespace tidepool
