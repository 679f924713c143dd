#include "remat/simulate/memory/memory_model.h"

#include <algorithm>
#include <atomic>

#include "allocator/base/sizes.h"
#include "allocator/space/simulated_space.h"

namespace tidepool::remat {
namespace {

constexpr size_t kUnit = 64;  // bytes: blocks' alignment on a CPU, which divides all other ones
constexpr size_t kLeastPage = kUnit * 16;

// SlabSpace: addresses that come with their memory, as from cudaMalloc. It checks no arguments.
class SlabSpace final : public AddressSpace {
 public:
  explicit SlabSpace(size_t granularity) : granularity_(granularity) {}

  size_t granularity() const override { return granularity_; }
  size_t mapping_limit() const override { return SIZE_MAX; }
  bool has_virtual_memory() const override { return false; }
  Address reserve(size_t) override { return {uintptr_t{1} << 44}; }
  void release_range(Address, size_t) override {}
  HandleId create_handle(size_t) override { return static_cast<HandleId>(++handles_); }
  void release_handle(HandleId) override {}
  void map(Address, size_t, HandleId) override {}
  void set_access(Address, size_t) override {}
  void unmap(Address, size_t) override {}
  MoveResult move(HandleId, Address, Address, size_t) override { return MoveResult::kStayed; }
  void fill(Address, size_t, unsigned char) override {}

 private:
  const size_t granularity_;
  std::atomic<uint64_t> handles_{0};
};

// The greatest power of two that cuts `bytes` into at least `parts` pages; at least kLeastPage.
size_t page_for(size_t bytes, size_t parts) {
  size_t page_bytes = kLeastPage;
  while (page_bytes * 2 <= bytes / parts) page_bytes *= 2;
  return page_bytes;
}

SimulatedMemory make_exact(size_t budget_bytes) {
  // The device has so many times the budget that no page ever has to move: only the cap on bytes
  // asked for limits the job.
  constexpr size_t kAbundance = 16;
  SimulatedMemory memory;
  AllocatorConfig& config = memory.config;
  config.budget_bytes = std::max(budget_bytes, kLeastPage * 64) * kAbundance;
  config.range_bytes = config.budget_bytes * 4;
  config.page_bytes = page_for(config.budget_bytes, 4096);
  config.alignment = kUnit;
  config.placement = kOneZone;
  config.allow_windows = false;
  memory.space = std::make_unique<SimulatedSpace>(kLeastPage);
  return memory;
}

std::optional<SimulatedMemory> make_arena(size_t budget_bytes) {
  SimulatedMemory memory;
  AllocatorConfig& config = memory.config;
  config.alignment = kUnit;
  // The allocator rounds the budget down to 8 pages.
  config.page_bytes = page_for(budget_bytes, 8192);
  if (budget_bytes < config.page_bytes * 8) return std::nullopt;
  config.budget_bytes = budget_bytes;
  config.placement = kOneZone;
  config.allow_remap = false;
  memory.space = std::make_unique<SlabSpace>(kLeastPage);
  return memory;
}

std::optional<SimulatedMemory> make_pages(size_t budget_bytes, size_t granularity) {
  SimulatedMemory memory;
  AllocatorConfig& config = memory.config;
  if (granularity == 0) granularity = 4 * kKiB;
  if (budget_bytes < granularity) return std::nullopt;
  config.alignment = kUnit;
  config.budget_bytes = budget_bytes;  // the allocator chooses the page's size, as in production
  memory.space = std::make_unique<SimulatedSpace>(granularity);
  return memory;
}

std::optional<SimulatedMemory> make_model(MemoryModel model, size_t budget_bytes,
                                          size_t granularity) {
  switch (model) {
    case MemoryModel::kExact:
      return make_exact(budget_bytes);
    case MemoryModel::kArena:
      return make_arena(budget_bytes);
    case MemoryModel::kPages:
      return make_pages(budget_bytes, granularity);
  }
  return std::nullopt;
}

constexpr const char* kNames[] = {"exact", "arena", "pages"};

}  // namespace

void restrict_to(RoomWays ways, AllocatorConfig& config) {
  const bool all = ways == RoomWays::kAll;
  config.allow_windows &= ways != RoomWays::kPages;
  config.allow_moves &= all || ways == RoomWays::kMoves;
  config.allow_remap &= all || ways == RoomWays::kPages;
}

const char* name_of(MemoryModel model) { return kNames[static_cast<size_t>(model)]; }

std::optional<SimulatedMemory> make_memory(MemoryModel model, size_t budget_bytes,
                                           size_t granularity,
                                           const ComparisonSettings& comparison) {
  auto memory = make_model(model, budget_bytes, granularity);
  ComparisonSettings settings = comparison;
  if (model == MemoryModel::kExact) settings.requested_limit_bytes = budget_bytes;
  if (!memory || !settings.any()) return memory;
  memory->strategy = std::make_unique<ComparisonStrategy>(settings);
  memory->config.strategy = memory->strategy.get();
  if (settings.evict_singly) memory->config.allow_moves = false;
  return memory;
}

}  // namespace tidepool::remat
