// Finding what to evict: the search alone, over lists of blocks as an arena has them, ours and the
// reference-shaped one; and a whole request that must evict, pricing included.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "allocator/base/sizes.h"
#include "allocator/budgeted_allocator.h"
#include "allocator/search/window_search.h"
#include "allocator/space/simulated_space.h"
#include "bench/allocator/reference_window_search.h"

namespace tidepool::bench {
namespace {

class Random {
 public:
  uint64_t below(uint64_t bound) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % bound;
  }
  template <typename Sequence>
  void shuffle(Sequence& sequence) {
    for (size_t k = sequence.size(); k > 1; --k) std::swap(sequence[k - 1], sequence[below(k)]);
  }

 private:
  uint64_t state_ = 1;
};

// Blocks of 512 bytes to 16 MiB, most of them small, 1.3 MiB on the average; an eighth free, unless
// the request would fit or the one before is; a few stay.
std::vector<RoomItem> make_items(size_t count, size_t wanted_bytes, Random& random) {
  std::vector<RoomItem> items;
  size_t offset = 0;
  for (size_t k = 0; k < count; ++k) {
    const size_t bytes = 512 * (1 + random.below(size_t{8} << random.below(13)));
    RoomItem item{offset, bytes, 0, BlockId{static_cast<uint32_t>(k + 1)}, RoomKind::kEvictable};
    const uint64_t kind = random.below(1000);
    const bool merges = !items.empty() && items.back().kind == RoomKind::kFree;
    if (kind < 125 && bytes < wanted_bytes && !merges) {
      item.kind = RoomKind::kFree;
    } else if (kind >= 997) {  // few: blocks that stay lie apart from those that go
      item.kind = RoomKind::kBarrier;
    } else {
      item.price = 1 + random.below(1'000'000);
    }
    items.push_back(item);
    offset += bytes;
  }
  return items;
}

// The lowest price of a window, by sums from the start and a binary search for each end: nothing in
// common with either search.
uint64_t lowest_price(const std::vector<RoomItem>& items, size_t bytes) {
  std::vector<size_t> ends;      // bytes of the first n items
  std::vector<uint64_t> prices;  // their price
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

std::optional<Window> search_list(const PricedLayout& room, size_t bytes) {
  return search_window(room, 0, room.size(), bytes);
}
std::optional<Window> search_reference(const std::vector<RoomItem>& items, size_t bytes) {
  return reference_window_search(items, bytes);
}

// One list after the other: what a processor learns about the branches of one helps no request.
template <typename List, typename Search>
void search(benchmark::State& state, Search find, bool exact) {
  constexpr size_t kBlocks = 200'000;  // of all lists
  const auto count = static_cast<size_t>(state.range(0));
  const size_t wanted_bytes = static_cast<size_t>(state.range(1)) * kMiB;
  Random random;
  std::vector<List> lists;
  double price = 0;
  do {
    const std::vector<RoomItem> items = make_items(count, wanted_bytes, random);
    lists.emplace_back(items);
    const uint64_t lowest = lowest_price(items, wanted_bytes);
    const std::optional<Window> found = find(lists.back(), wanted_bytes);
    if (!found || (exact && found->price != lowest)) state.SkipWithError("not the cheapest window");
    if (found) price += static_cast<double>(found->price) / static_cast<double>(lowest);
  } while (lists.size() * count < kBlocks);
  size_t next = 0;
  for (auto _ : state) {
    auto window = find(lists[next], wanted_bytes);
    benchmark::DoNotOptimize(window);
    if (++next == lists.size()) next = 0;
  }
  state.counters["price"] = price / static_cast<double>(lists.size());
}
void window_search(benchmark::State& state) { search<PricedLayout>(state, &search_list, true); }
void window_search_reference(benchmark::State& state) {
  search<std::vector<RoomItem>>(state, &search_reference, false);
}
// Windows of about 50 blocks; shorter ones, which leave less to leap over, on the second line.
BENCHMARK(window_search)
    ->ArgNames({"blocks", "wanted_MiB"})
    ->Unit(benchmark::kMicrosecond)
    ->ArgsProduct({{1'000, 10'000, 100'000, 1'000'000}, {64}})
    ->ArgsProduct({{1'000, 10'000, 100'000}, {1, 8}});
BENCHMARK(window_search_reference)
    ->ArgNames({"blocks", "wanted_MiB"})
    ->Unit(benchmark::kMicrosecond)
    ->ArgsProduct({{1'000, 10'000, 100'000, 1'000'000}, {64}});

// What a block's price depends on, as far from the others' as an owner's own memory is.
struct alignas(64) Content {
  uint64_t cost = 0;
  bool stays = false;
};

// Evicts whatever it is asked to; every eighth block may not be evicted.
class WillingReclaimer final : public Reclaimer {
 public:
  explicit WillingReclaimer(size_t count) : contents_(count) {
    Random random;
    for (Content& content : contents_) {
      content.cost = 1 + random.below(1'000'000);
      content.stays = random.below(8) == 0;
    }
  }

  Owner owner(size_t index) { return &contents_[index]; }

  void begin_search() override {}
  Price price(Owner owner, size_t) override {
    const auto* content = static_cast<const Content*>(owner);
    return content->stays ? Price::blocked() : Price{content->cost, false};
  }
  double price_per_byte(Owner owner, size_t) override {
    const auto* content = static_cast<const Content*>(owner);
    return content->stays ? kNever : static_cast<double>(content->cost);
  }
  bool evict(Owner owner) override {
    evicted.push_back(static_cast<size_t>(static_cast<Content*>(owner) - contents_.data()));
    return true;
  }
  bool give_up_or_wait(DeviceLock&) override { return false; }
  void tell_uses(std::span<HeldBlock>) override {}

  std::vector<size_t> evicted;  // indices

 private:
  std::vector<Content> contents_;
};

// Every request misses: the arena is full of so many blocks, and one as large as four of them is
// asked for; a window, or (`pages`) scattered blocks, whichever is cheaper, goes for it. What was
// evicted is allocated again outside of the timed part. `search_us` is the arena's own count.
void miss_with_eviction(benchmark::State& state) {
  constexpr size_t kPageBytes = 2 * kMiB;
  constexpr size_t kBlockBytes = 16 * kKiB;
  AllocatorConfig config;
  config.budget_bytes = round_down(static_cast<size_t>(state.range(0)) * kBlockBytes, kPageBytes);
  config.page_bytes = kPageBytes;
  config.alignment = 512;
  config.allow_remap = state.range(1) != 0;
  SimulatedSpace space(kPageBytes);
  DeviceMutex mutex;
  std::vector<void*> blocks(config.budget_bytes / kBlockBytes);
  WillingReclaimer reclaimer(blocks.size());
  BudgetedAllocator allocator(space, mutex, config);
  allocator.set_reclaimer(&reclaimer);
  auto fill = [&](size_t index) {
    blocks[index] = allocator.allocate(kBlockBytes);
    DeviceLock lock(mutex);
    allocator.set_owner(blocks[index], reclaimer.owner(index));
  };
  // Twice, freed in disorder: neighbours by address are none in the processor's memory then.
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  Random random;
  for (size_t k : order) fill(k);
  random.shuffle(order);
  for (size_t k : order) allocator.free(blocks[k]);
  random.shuffle(order);
  for (size_t k : order) fill(k);
  const uint64_t searched_ns = allocator.statistics().search_ns;
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
  state.counters["search_us"] = static_cast<double>(statistics.search_ns - searched_ns) /
                                static_cast<double>(state.iterations()) / 1000;
  for (void* block : blocks) allocator.free(block);
}
BENCHMARK(miss_with_eviction)
    ->ArgNames({"live", "pages"})
    ->Unit(benchmark::kMicrosecond)
    ->ArgsProduct({{1'000, 10'000, 100'000}, {0, 1}});

}  // namespace
}  // namespace tidepool::bench
