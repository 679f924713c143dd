// Replays of recorded and made-up jobs: what a request costs with room to spare, and the smallest
// device on which the job completes. Counters: smallest, that device per byte alive at most.
#include <benchmark/benchmark.h>

#include <memory>

#include "allocator/base/sizes.h"
#include "bench/allocator/linear_pool.h"
#include "bench/allocator/replay.h"
#include "bench/allocator/replay_benches.h"
#include "bench/allocator/synthetic_traces.h"
#include "bench/allocator/tidepool_peer.h"

namespace tidepool::bench {
namespace {

constexpr size_t kStep = TidepoolPeer::kPageBytes;

template <class P>
void run_replay(benchmark::State& state, const Trace& trace) {
  const size_t smallest =
      smallest_device(trace, [](size_t bytes) { return std::make_unique<P>(bytes); }, kStep);
  if (smallest == 0) state.SkipWithError("no device is large enough");
  P peer(2 * smallest);
  (void)replay(trace, peer);  // takes its memory from the device
  for (auto _ : state) {
    if (!replay(trace, peer)) state.SkipWithError("a larger device is too small");
  }
  state.counters["smallest"] =
      static_cast<double>(smallest) / static_cast<double>(trace.live_peak_bytes);
  state.counters["smallest_MiB"] = static_cast<double>(smallest) / static_cast<double>(kMiB);
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(trace.events.size()));
}

template <class P>
void add(const std::shared_ptr<const Trace>& trace) {
  const std::string name = "replay<" + std::string(P::kName) + ">/" + trace->name;
  benchmark::RegisterBenchmark(name.c_str(), [trace](benchmark::State& state) {
    run_replay<P>(state, *trace);
  })->Unit(benchmark::kMicrosecond);
}

void add_all(Trace trace) {
  const auto shared = std::make_shared<const Trace>(std::move(trace));
  add<TidepoolPeer>(shared);
  add<LinearPool>(shared);
}

}  // namespace

void register_file(const std::string& path) {
  for (Trace& trace : read_log(path)) add_all(std::move(trace));
}

void register_synthetic() {
  add_all(training_trace());
  add_all(varying_trace());
}

}  // namespace tidepool::bench
