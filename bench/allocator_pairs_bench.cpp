// What one allocation and free cost in BudgetedAllocator: hits, against malloc, with few and with
// many blocks alive; and misses that must evict a window among thousands of blocks.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "allocator/budgeted_allocator.h"
#include "allocator/private_host_space.h"
#include "allocator/sizes.h"

namespace tidepool {
namespace {

constexpr size_t kHandleBytes = 2 * kMiB;

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

struct Arena {
  explicit Arena(size_t budget_bytes) : allocator(space, mutex, config(budget_bytes)) {
    allocator.set_reclaimer(&reclaimer);
  }
  static AllocatorConfig config(size_t budget_bytes) {
    AllocatorConfig made;
    made.budget_bytes = budget_bytes;
    made.handle_bytes = kHandleBytes;
    return made;
  }

  // Makes the block number `index` evictable.
  void adopt(void* address, size_t index) {
    DeviceLock lock(mutex);
    allocator.set_owner(address, reinterpret_cast<Owner>(index + 1));
  }

  PrivateHostSpace space{kHandleBytes};
  DeviceMutex mutex;
  WillingReclaimer reclaimer;
  BudgetedAllocator allocator;
};

// Sizes as a training step has them, without a pattern that would suit a bin.
size_t mixed_bytes(size_t k, size_t most) { return 64 + k * 0x9e3779b97f4a7c15u % most / 64 * 64; }

// Arguments: bytes of the pair, blocks alive around it.
void pair_budgeted(benchmark::State& state) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  const size_t live = static_cast<size_t>(state.range(1));
  Arena arena(live * 8 * kKiB + 64 * kMiB);
  std::vector<void*> blocks;
  for (size_t k = 0; k < live; ++k) {
    blocks.push_back(arena.allocator.allocate(mixed_bytes(k, 4 * kKiB)));
  }
  for (auto _ : state) {
    void* address = arena.allocator.allocate(bytes);
    benchmark::DoNotOptimize(address);
    arena.allocator.free(address);
  }
  for (void* block : blocks) arena.allocator.free(block);
}

void pair_malloc(benchmark::State& state) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  const size_t live = static_cast<size_t>(state.range(1));
  std::vector<void*> blocks;
  for (size_t k = 0; k < live; ++k) blocks.push_back(std::malloc(mixed_bytes(k, 4 * kKiB)));
  for (auto _ : state) {
    void* address = nullptr;
    if (posix_memalign(&address, 64, bytes) != 0) state.SkipWithError("no memory");
    benchmark::DoNotOptimize(address);
    std::free(address);
  }
  for (void* block : blocks) std::free(block);
}

void sizes_and_blocks(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"bytes", "live"});
  for (int64_t live : {100, 10'000}) {
    for (int64_t bytes : {int64_t{64}, int64_t{4} << 10, int64_t{1} << 20}) {
      benchmark->Args({bytes, live});
    }
  }
}
BENCHMARK(pair_budgeted)->Apply(sizes_and_blocks);
BENCHMARK(pair_malloc)->Apply(sizes_and_blocks);

// Allocates and frees in a changing order, as the end of a step does, so that blocks must be split
// and coalesced. Arguments: blocks alive.
void churn_budgeted(benchmark::State& state) {
  const size_t live = static_cast<size_t>(state.range(0));
  Arena arena(live * 8 * kKiB + 64 * kMiB);
  std::vector<void*> blocks(live, nullptr);
  size_t k = 0;
  for (auto _ : state) {
    void*& block = blocks[k * 0x9e3779b97f4a7c15u % live];
    if (block != nullptr) arena.allocator.free(block);
    block = arena.allocator.allocate(mixed_bytes(++k, 4 * kKiB));
  }
  for (void* block : blocks) {
    if (block != nullptr) arena.allocator.free(block);
  }
}
BENCHMARK(churn_budgeted)->ArgName("live")->Arg(100)->Arg(10'000);

// Every request misses: the arena is full of `live` evictable blocks, and one as large as four of
// them is asked for. What was evicted is allocated again outside of the timed part.
void miss_with_window(benchmark::State& state) {
  const size_t block_bytes = 16 * kKiB;
  const size_t budget_bytes =
      round_down(static_cast<size_t>(state.range(0)) * block_bytes, kHandleBytes);
  Arena arena(budget_bytes);
  std::vector<void*> blocks(budget_bytes / block_bytes);
  auto fill = [&](size_t index) {
    blocks[index] = arena.allocator.allocate(block_bytes);
    arena.adopt(blocks[index], index);
  };
  for (size_t k = 0; k < blocks.size(); ++k) fill(k);
  for (auto _ : state) {
    void* address = arena.allocator.allocate(4 * block_bytes);
    benchmark::DoNotOptimize(address);
    state.PauseTiming();
    arena.allocator.free(address);
    while (!arena.reclaimer.evicted.empty()) {  // making room for one may evict another
      const size_t index = arena.reclaimer.evicted.back();
      arena.reclaimer.evicted.pop_back();
      fill(index);
    }
    state.ResumeTiming();
  }
  const AllocatorStatistics statistics = arena.allocator.statistics();
  state.counters["windows"] = static_cast<double>(statistics.windows);
  state.counters["remaps"] = static_cast<double>(statistics.remaps);
  for (void* block : blocks) arena.allocator.free(block);
}
BENCHMARK(miss_with_window)->ArgName("live")->Arg(3000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tidepool
