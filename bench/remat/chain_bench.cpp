// What finding the least cuts of a chain takes, by its length: with workspaces so small that two
// pointers suffice, and with workspaces for which all pairs are tried.
// --smoke   runs each benchmark for a moment only, to show that it works
#include <benchmark/benchmark.h>

#include <string_view>
#include <vector>

#include "allocator/base/splitmix.h"
#include "remat/plan/chain/chain.h"

namespace tidepool::bench {
namespace {

remat::Chain chain_of(size_t layers, size_t most_workspace) {
  SplitMix random(1);
  std::vector<size_t> outputs, workspaces;
  for (size_t k = 0; k < layers; ++k) {
    outputs.push_back(1 + random.below(1000));
    workspaces.push_back(random.below(most_workspace + 1));
  }
  return remat::simple_chain(1000, outputs, workspaces);
}

void find(benchmark::State& state, const remat::Chain& chain) {
  bool least = true;
  for (auto _ : state) least &= remat::least_cuts(chain).least;
  if (!least) state.SkipWithError("these cuts may not be the best");
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void by_pointers(benchmark::State& state) {
  find(state, chain_of(static_cast<size_t>(state.range(0)), 0));
}
BENCHMARK(by_pointers)->RangeMultiplier(10)->Range(100, 1'000'000)->Unit(benchmark::kMicrosecond);

void by_pairs(benchmark::State& state) {
  remat::Chain chain = chain_of(static_cast<size_t>(state.range(0)), 5000);
  chain.spans.push_back({0, 0, 0});
  find(state, chain);
}
BENCHMARK(by_pairs)->RangeMultiplier(10)->Range(100, 10'000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tidepool::bench

int main(int count, char** arguments) {
  std::vector<char*> given(arguments, arguments + count);
  static char quick[] = "--benchmark_min_time=0.01";
  for (char*& argument : given) {
    if (std::string_view(argument) == "--smoke") argument = quick;
  }
  count = static_cast<int>(given.size());
  benchmark::Initialize(&count, given.data());
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
