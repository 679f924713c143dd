// Finding what to evict: the search alone, over lists of blocks as an arena has them, ours and the
// reference-shaped one; and a whole request that must evict a window.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "allocator/budgeted_allocator.h"
#include "allocator/simulated_space.h"
#include "allocator/sizes.h"
#include "allocator/window_search.h"
#include "bench/allocator/reference_window_search.h"

namespace tidepool::bench {
namespace {

constexpr size_t kWantedBytes = 64 * kMiB;

// Blocks of 4 KiB to 16 MiB, most of them small; an eighth free, an eighth to stay.
std::vector<RoomItem> make_items(size_t count) {
  std::vector<RoomItem> items;
  size_t offset = 0;
  uint64_t state = 1;
  auto random = [&state](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  };
  for (size_t k = 0; k < count; ++k) {
    const size_t bytes = 512 * (1 + random(size_t{8} << random(13)));
    RoomItem item{offset, bytes, 0, BlockId{static_cast<uint32_t>(k + 1)}, RoomKind::kEvictable};
    const uint64_t kind = random(1000);
    if (kind < 125) {
      item.kind = RoomKind::kFree;
    } else if (kind < 128) {  // few: blocks that stay lie apart from those that go
      item.kind = RoomKind::kBarrier;
    } else {
      item.price = 1 + random(1'000'000);
    }
    items.push_back(item);
    offset += bytes;
  }
  return items;
}

// The lowest price of a window, by sums from the start and a binary search for each end: nothing in
// common with either search.
uint64_t lowest_price(const std::vector<RoomItem>& items, size_t bytes) {
  std::vector<size_t> ends;       // bytes of the first n items
  std::vector<uint64_t> prices;   // their price
  ends.push_back(0);
  prices.push_back(0);
  uint64_t lowest = UINT64_MAX;
  size_t barrier = 0;  // no window begins before
  for (size_t k = 0; k < items.size(); ++k) {
    const bool stays = items[k].kind == RoomKind::kBarrier || items[k].kind == RoomKind::kHole;
    ends.push_back(ends.back() + items[k].bytes);
    prices.push_back(prices.back() + items[k].price);
    if (stays) barrier = k + 1;
    if (ends.back() < bytes) continue;
    const auto after =
        std::upper_bound(ends.begin(), ends.end(), ends.back() - bytes) - ends.begin();
    const auto first = static_cast<size_t>(after) - 1;
    if (first >= barrier && first <= k) lowest = std::min(lowest, prices.back() - prices[first]);
  }
  return lowest;
}

using Search = std::optional<Window> (*)(std::span<const RoomItem>, size_t);

void search(benchmark::State& state, Search find, bool exact) {
  const std::vector<RoomItem> items = make_items(static_cast<size_t>(state.range(0)));
  const uint64_t lowest = lowest_price(items, kWantedBytes);
  const std::optional<Window> found = find(items, kWantedBytes);
  if (!found || (exact && found->price != lowest)) state.SkipWithError("not the cheapest window");
  for (auto _ : state) {
    auto window = find(items, kWantedBytes);
    benchmark::DoNotOptimize(window);
  }
  if (found) {
    state.counters["price"] = static_cast<double>(found->price) / static_cast<double>(lowest);
  }
}
void window_search(benchmark::State& state) { search(state, &search_window, true); }
void window_search_reference(benchmark::State& state) {
  search(state, &reference_window_search, false);
}
BENCHMARK(window_search)->RangeMultiplier(10)->Range(1'000, 1'000'000)->Unit(
    benchmark::kMicrosecond);
BENCHMARK(window_search_reference)->RangeMultiplier(10)->Range(1'000, 1'000'000)->Unit(
    benchmark::kMicrosecond);

// Evicts whatever it is asked to; prices differ from block to block, and every eighth block may
// not be evicted.
class WillingReclaimer final : public Reclaimer {
 public:
  void begin_search() override {}
  Price price(Owner owner) override {
    const uint64_t mixed = reinterpret_cast<uintptr_t>(owner) * 0x9e3779b97f4a7c15u >> 40;
    return mixed % 8 == 0 ? Price::blocked() : Price{mixed + 1, false};
  }
  bool evict(Owner owner) override {
    evicted.push_back(reinterpret_cast<uintptr_t>(owner) - 1);
    return true;
  }
  bool wait_for_room(DeviceLock&) override { return false; }
  std::vector<PinnedBytes> pinned(size_t* indispensable_bytes) override {
    if (indispensable_bytes != nullptr) *indispensable_bytes = 0;
    return {};
  }

  std::vector<size_t> evicted;  // indices of blocks, as owners say them
};

// Every request misses: the arena is full of so many evictable blocks, and one as large as four of
// them is asked for. What was evicted is allocated again outside of the timed part.
void miss_with_window(benchmark::State& state) {
  constexpr size_t kHandleBytes = 2 * kMiB;
  constexpr size_t kBlockBytes = 16 * kKiB;
  AllocatorConfig config;
  config.budget_bytes =
      round_down(static_cast<size_t>(state.range(0)) * kBlockBytes, kHandleBytes);
  config.handle_bytes = kHandleBytes;
  config.alignment = 512;
  SimulatedSpace space(kHandleBytes);
  DeviceMutex mutex;
  WillingReclaimer reclaimer;
  BudgetedAllocator allocator(space, mutex, config);
  allocator.set_reclaimer(&reclaimer);
  std::vector<void*> blocks(config.budget_bytes / kBlockBytes);
  auto fill = [&](size_t index) {
    blocks[index] = allocator.allocate(kBlockBytes);
    DeviceLock lock(mutex);
    allocator.set_owner(blocks[index], reinterpret_cast<Owner>(index + 1));
  };
  for (size_t k = 0; k < blocks.size(); ++k) fill(k);
  for (auto _ : state) {
    void* address = allocator.allocate(4 * kBlockBytes);
    benchmark::DoNotOptimize(address);
    state.PauseTiming();
    allocator.free(address);
    while (!reclaimer.evicted.empty()) {  // making room for one may evict another
      const size_t index = reclaimer.evicted.back();
      reclaimer.evicted.pop_back();
      fill(index);
    }
    state.ResumeTiming();
  }
  const AllocatorStatistics statistics = allocator.statistics();
  state.counters["windows"] = static_cast<double>(statistics.windows);
  state.counters["remaps"] = static_cast<double>(statistics.remaps);
  for (void* block : blocks) allocator.free(block);
}
BENCHMARK(miss_with_window)->ArgName("live")->Arg(3'000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tidepool::bench
