// What one allocation and free cost that find what they need, in ours and in others, with few and
// many blocks alive, on one thread and on two.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "allocator/base/sizes.h"
#include "bench/allocator/linear_pool.h"
#include "bench/allocator/tidepool_peer.h"

namespace tidepool::bench {
namespace {

constexpr size_t kDeviceBytes = 4 * kGiB;

// The C library's, for scale: real memory, and no device.
class MallocPeer final : public Peer {
 public:
  static constexpr const char* kName = "malloc";
  explicit MallocPeer(size_t) {}
  void* allocate(size_t bytes, StreamId = StreamId::kDefault) override {
    return std::aligned_alloc(512, round_up(bytes, 512));
  }
  void free(void* address, size_t, StreamId = StreamId::kDefault) override { std::free(address); }
  size_t reserved_peak_bytes() const override { return 0; }
};

// Blocks that stay, of mixed sizes up to 64 KiB.
size_t mixed_bytes(size_t k) { return 512 + k * 0x9e3779b97f4a7c15u % 65536 / 512 * 512; }

// The peer of one run and its blocks, shared by the run's threads.
template <class P>
struct Run {
  explicit Run(size_t live) : peer(kDeviceBytes), blocks(live) {
    for (size_t k = 0; k < live; ++k) blocks[k] = peer.allocate(mixed_bytes(k));
  }
  ~Run() {
    for (size_t k = 0; k < blocks.size(); ++k) peer.free(blocks[k], mixed_bytes(k));
  }
  P peer;
  std::vector<void*> blocks;
};

// Arguments: bytes of the pair, blocks alive around it.
template <class P>
void hit_pair(benchmark::State& state) {
  static std::unique_ptr<Run<P>> run;
  const size_t bytes = static_cast<size_t>(state.range(0));
  if (state.thread_index() == 0) {
    run = std::make_unique<Run<P>>(static_cast<size_t>(state.range(1)));
    run->peer.free(run->peer.allocate(bytes), bytes);  // room for it
  }
  for (auto _ : state) {  // the threads meet before and after
    void* address = run->peer.allocate(bytes);
    benchmark::DoNotOptimize(address);
    run->peer.free(address, bytes);
  }
  if (state.thread_index() == 0) run.reset();
}

void cases(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"bytes", "live"});
  for (int64_t live : {100, 1'000, 10'000}) {
    for (int64_t bytes : {int64_t{512}, int64_t{256} << 10, int64_t{32} << 20}) {
      benchmark->Args({bytes, live});
    }
  }
  benchmark->Threads(1)->Threads(2);
}
BENCHMARK_TEMPLATE(hit_pair, TidepoolPeer)->Apply(cases);
BENCHMARK_TEMPLATE(hit_pair, LinearPool)->Apply(cases);
BENCHMARK_TEMPLATE(hit_pair, MallocPeer)->Apply(cases);

}  // namespace
}  // namespace tidepool::bench
