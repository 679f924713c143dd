// MemoryModel: the kind of memory of a simulation. In each, production's allocator runs over
// addresses that have no memory behind them.
//   exact   bytes are fungible: a request is served if it and all bytes held fit the budget
//   arena   memory is one contiguous slab, as from cudaMalloc: a request needs a window
//   pages   memory is virtual: a window serves a request, or scattered victims whose pages are
//           mapped together
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "allocator/budgeted_allocator.h"
#include "allocator/space/address_space.h"
#include "remat/simulate/memory/comparison_strategy.h"

namespace tidepool::remat {

enum class MemoryModel : uint8_t { kExact, kArena, kPages };

// The ways in which room is made: all that the memory has, of which the cheapest is taken; or,
// for comparison, one alone. kWindows: windows of what can be evicted. kMoves: windows out of which
// contents may also move. kPages: pages of scattered victims, mapped together.
enum class RoomWays : uint8_t { kAll, kWindows, kMoves, kPages };

// Leaves the allocator only these ways.
void restrict_to(RoomWays ways, AllocatorConfig& config);

const char* name_of(MemoryModel model);

struct SimulatedMemory {
  std::unique_ptr<AddressSpace> space;
  std::unique_ptr<ComparisonStrategy> strategy;  // that of `config`; null if it has none
  AllocatorConfig config;
};

// The address space, strategy and configuration of an allocator under a budget. `granularity` is
// the smallest page of the device, which only the model `pages` has; 0 stands for 4 KiB, as on a
// CPU. Returns nothing if the budget is smaller than one page.
std::optional<SimulatedMemory> make_memory(MemoryModel model, size_t budget_bytes,
                                           size_t granularity,
                                           const ComparisonSettings& comparison = {});

}  // namespace tidepool::remat
