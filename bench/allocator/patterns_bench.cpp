// Patterns of requests (bench/allocator/patterns.h), and pairs among many blocks or holes.
// Counters: reserved, what was held from the device at most per byte that was alive at most (1 is
// all one can wish), and refused, requests for which the device was too small.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "allocator/base/sizes.h"
#include "bench/allocator/linear_pool.h"
#include "bench/allocator/patterns.h"
#include "bench/allocator/tidepool_peer.h"

namespace tidepool::bench {
namespace {

void report(benchmark::State& state, const Peer& peer, const Workload& workload) {
  state.counters["reserved"] = static_cast<double>(peer.reserved_peak_bytes()) /
                               static_cast<double>(workload.live_peak_bytes());
  state.counters["refused"] = static_cast<double>(workload.refused());
}

// Frees and allocates in a changing order, one of each per iteration. Argument: blocks.
template <class P>
void random_pairs(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  P peer(8 * kGiB);
  Workload heap(peer);
  std::vector<Held> held(count);
  for (size_t k = 0; k < count; ++k) held[k] = heap.take(mixed_bytes(k, 256 * kKiB));
  size_t k = count;
  for (auto _ : state) {
    Held& each = held[++k * 0x9e3779b97f4a7c15u % count];
    heap.give(each);
    each = heap.take(mixed_bytes(k * 7, 256 * kKiB));
  }
  for (Held& each : held) heap.give(each);
  report(state, peer, heap);
}
BENCHMARK_TEMPLATE(random_pairs, TidepoolPeer)->Arg(100)->Arg(1'000)->Arg(10'000);
BENCHMARK_TEMPLATE(random_pairs, LinearPool)->Arg(100)->Arg(1'000)->Arg(10'000);

// A pair of changing size among so many free holes, none of which touches another. Argument: holes.
template <class P>
void free_holes(benchmark::State& state) {
  const auto holes = static_cast<size_t>(state.range(0));
  P peer(16 * kGiB);
  Workload heap(peer);
  std::vector<Held> held(2 * holes);
  for (size_t k = 0; k < held.size(); ++k) held[k] = heap.take(mixed_bytes(k, 128 * kKiB));
  for (size_t k = 0; k < held.size(); k += 2) heap.give(held[k]);
  size_t k = 0;
  for (auto _ : state) {
    Held each = heap.take(mixed_bytes(++k * 7, 128 * kKiB));
    heap.give(each);
  }
  for (size_t n = 1; n < held.size(); n += 2) heap.give(held[n]);
  report(state, peer, heap);
}
BENCHMARK_TEMPLATE(free_holes, TidepoolPeer)->RangeMultiplier(4)->Range(4'096, 65'536);
BENCHMARK_TEMPLATE(free_holes, LinearPool)->RangeMultiplier(4)->Range(4'096, 65'536);

// A whole pattern per iteration, on memory that an earlier one has taken from the device.
template <class P>
void run_pattern(benchmark::State& state, const Pattern& pattern) {
  P peer(pattern.device_bytes);
  Workload first(peer);
  pattern.run(first);
  for (auto _ : state) {
    Workload heap(peer);
    pattern.run(heap);
  }
  report(state, peer, first);
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(first.requests()));
}

template <class P>
bool register_patterns() {
  for (const Pattern& pattern : patterns()) {
    const std::string name = std::string(pattern.name) + "<" + P::kName + ">";
    benchmark::RegisterBenchmark(name.c_str(), [&pattern](benchmark::State& state) {
      run_pattern<P>(state, pattern);
    })->Unit(benchmark::kMicrosecond);
  }
  return true;
}
const bool registered = register_patterns<TidepoolPeer>() && register_patterns<LinearPool>();

}  // namespace
}  // namespace tidepool::bench
