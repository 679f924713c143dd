// MemoryModel: what memory is like in a simulation: an allocator of the production kind over
// addresses without memory behind them.
//   exact   bytes are fungible: a request is served if it and all that is held fit the budget
//   arena   one contiguous slab, as from cudaMalloc: a request needs a window
//   pages   virtual memory: windows, or scattered victims whose pages are mapped together
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "allocator/budgeted_allocator.h"
#include "allocator/space/address_space.h"
#include "remat/simulate/comparison_strategy.h"

namespace tidepool::plan {

enum class MemoryModel : uint8_t { kExact, kArena, kPages };

const char* name_of(MemoryModel model);
std::optional<MemoryModel> memory_model_named(std::string_view name);

struct SimulatedMemory {
  std::unique_ptr<AddressSpace> space;
  std::unique_ptr<ComparisonStrategy> strategy;  // the configuration's, if it has one
  AllocatorConfig config;
};

// `granularity`: the least page of the device; 0: 4 KiB, as on a CPU. Only `pages` has it.
// Empty if the budget is too small for the model to have a single page.
std::optional<SimulatedMemory> make_memory(MemoryModel model, size_t budget_bytes,
                                           size_t granularity,
                                           const ComparisonSettings& comparison = {});

}  // namespace tidepool::plan
