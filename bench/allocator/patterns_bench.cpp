// Patterns of requests that allocators are known to be slow or wasteful with. Counters: reserved,
// what was held from the device at most, per byte that was alive at most (1 is all one can wish).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "allocator/sizes.h"
#include "bench/allocator/linear_pool.h"
#include "bench/allocator/tidepool_peer.h"

namespace tidepool::bench {
namespace {

struct Held {
  void* address = nullptr;
  size_t bytes = 0;
  StreamId stream = StreamId::kDefault;
};

// A peer, what is alive of it, and the peak of that.
template <class P>
class Heap {
 public:
  explicit Heap(size_t device_bytes) : peer_(device_bytes) {}

  Held take(size_t bytes, StreamId stream = StreamId::kDefault) {
    live_bytes_ += bytes;
    live_peak_bytes_ = std::max(live_peak_bytes_, live_bytes_);
    void* address = peer_.allocate(bytes, stream);
    failed_ |= address == nullptr;
    return {address, bytes, stream};
  }
  void give(Held& held) {
    live_bytes_ -= held.bytes;
    if (held.address != nullptr) peer_.free(held.address, held.bytes, held.stream);
    held.address = nullptr;
  }
  void report(benchmark::State& state) const {
    if (failed_) state.SkipWithError("the device is too small");
    state.counters["reserved"] = static_cast<double>(peer_.reserved_peak_bytes()) /
                                 static_cast<double>(live_peak_bytes_);
  }

 private:
  P peer_;
  size_t live_bytes_ = 0;
  size_t live_peak_bytes_ = 0;
  bool failed_ = false;
};

size_t mixed(size_t k, size_t most) { return 512 + k * 0x9e3779b97f4a7c15u % most / 512 * 512; }

// Frees and allocates in a changing order, one of each per iteration. Argument: blocks.
template <class P>
void random_pairs(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  Heap<P> heap(8 * kGiB);
  std::vector<Held> held(count);
  for (size_t k = 0; k < count; ++k) held[k] = heap.take(mixed(k, 256 * kKiB));
  size_t k = count;
  for (auto _ : state) {
    Held& each = held[++k * 0x9e3779b97f4a7c15u % count];
    heap.give(each);
    each = heap.take(mixed(k * 7, 256 * kKiB));
  }
  for (Held& each : held) heap.give(each);
  heap.report(state);
}
BENCHMARK_TEMPLATE(random_pairs, TidepoolPeer)->Arg(100)->Arg(1'000)->Arg(10'000);
BENCHMARK_TEMPLATE(random_pairs, LinearPool)->Arg(100)->Arg(1'000)->Arg(10'000);

// A pair of changing size among so many free holes, none of which touches another. Argument: holes.
template <class P>
void free_holes(benchmark::State& state) {
  const auto holes = static_cast<size_t>(state.range(0));
  Heap<P> heap(16 * kGiB);
  std::vector<Held> held(2 * holes);
  for (size_t k = 0; k < held.size(); ++k) held[k] = heap.take(mixed(k, 128 * kKiB));
  for (size_t k = 0; k < held.size(); k += 2) heap.give(held[k]);
  size_t k = 0;
  for (auto _ : state) {
    Held each = heap.take(mixed(++k * 7, 128 * kKiB));
    heap.give(each);
  }
  for (size_t n = 1; n < held.size(); n += 2) heap.give(held[n]);
  heap.report(state);
}
BENCHMARK_TEMPLATE(free_holes, TidepoolPeer)->RangeMultiplier(4)->Range(4'096, 65'536);
BENCHMARK_TEMPLATE(free_holes, LinearPool)->RangeMultiplier(4)->Range(4'096, 65'536);

// A step of training: forward allocates an activation and frees a workspace per layer, backward
// frees activations in reverse, with a gradient beside each. Argument: layers. One iteration is a
// step.
template <class P>
void training_steps(benchmark::State& state) {
  const auto layers = static_cast<size_t>(state.range(0));
  Heap<P> heap(32 * kGiB);
  std::vector<Held> weights(layers);
  std::vector<Held> activations(layers);
  for (size_t k = 0; k < layers; ++k) weights[k] = heap.take(mixed(k, 8 * kMiB));
  for (auto _ : state) {
    for (size_t k = 0; k < layers; ++k) {
      Held workspace = heap.take(4 * kMiB);
      activations[k] = heap.take(mixed(k * 3, 16 * kMiB));
      heap.give(workspace);
    }
    for (size_t k = layers; k-- > 0;) {
      Held gradient = heap.take(activations[k].bytes);
      Held of_weight = heap.take(weights[k].bytes);
      heap.give(activations[k]);
      heap.give(of_weight);
      heap.give(gradient);
    }
  }
  for (Held& each : weights) heap.give(each);
  heap.report(state);
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(layers) * 8);
}
BENCHMARK_TEMPLATE(training_steps, TidepoolPeer)->Arg(200);
BENCHMARK_TEMPLATE(training_steps, LinearPool)->Arg(200);

// Batches that grow by a thirtieth: what fitted the last one fits none of this one's. One iteration
// is 60 of them.
template <class P>
void growing_batch(benchmark::State& state) {
  for (auto _ : state) {
    Heap<P> heap(32 * kGiB);
    std::vector<Held> held(50);
    for (size_t batch = 30; batch < 90; ++batch) {
      for (size_t k = 0; k < held.size(); ++k) held[k] = heap.take(batch * mixed(k, 256 * kKiB));
      for (size_t k = held.size(); k-- > 0;) heap.give(held[k]);
    }
    heap.report(state);
  }
}
BENCHMARK_TEMPLATE(growing_batch, TidepoolPeer)->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(growing_batch, LinearPool)->Unit(benchmark::kMicrosecond);

// Sizes just below, at and above 1 MiB, where other allocators change pools. One iteration is
// 300 blocks allocated, every third freed and used again.
template <class P>
void one_mebibyte(benchmark::State& state) {
  for (auto _ : state) {
    Heap<P> heap(2 * kGiB);
    std::vector<Held> held(300);
    for (size_t k = 0; k < held.size(); ++k) held[k] = heap.take(kMiB - 512 + k % 3 * 512);
    for (size_t k = 0; k < held.size(); k += 3) heap.give(held[k]);
    for (size_t k = 0; k < held.size(); k += 3) held[k] = heap.take(kMiB - 512);
    for (Held& each : held) heap.give(each);
    heap.report(state);
  }
}
BENCHMARK_TEMPLATE(one_mebibyte, TidepoolPeer)->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(one_mebibyte, LinearPool)->Unit(benchmark::kMicrosecond);

// 64 blocks of 16 MiB, then every other one freed, and 32 MiB asked for as often as that makes
// room: what a device of 1 GiB and a half needs pages to move for. Counter: served, of 16 + 16.
template <class P>
void sixteen_then_thirty_two(benchmark::State& state) {
  for (auto _ : state) {
    P peer(3 * kGiB / 2);
    std::vector<void*> small(64);
    for (void*& block : small) block = peer.allocate(16 * kMiB);
    for (size_t k = 0; k < small.size(); k += 2) peer.free(small[k], 16 * kMiB);
    std::vector<void*> large;
    for (size_t k = 0; k < 32; ++k) {
      if (void* block = peer.allocate(32 * kMiB)) large.push_back(block);
    }
    state.counters["served"] = static_cast<double>(large.size());
    for (void* block : large) peer.free(block, 32 * kMiB);
    for (size_t k = 1; k < small.size(); k += 2) peer.free(small[k], 16 * kMiB);
  }
}
BENCHMARK_TEMPLATE(sixteen_then_thirty_two, TidepoolPeer)->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(sixteen_then_thirty_two, LinearPool)->Unit(benchmark::kMicrosecond);

// Each of 64 streams allocates and frees once and is never seen again: its memory must serve the
// next. One iteration is all of them.
template <class P>
void one_shot_streams(benchmark::State& state) {
  for (auto _ : state) {
    Heap<P> heap(4 * kGiB);
    for (uint32_t stream = 1; stream <= 64; ++stream) {
      std::vector<Held> held(8);
      for (size_t k = 0; k < held.size(); ++k) {
        held[k] = heap.take(mixed(k + stream, 8 * kMiB), StreamId{stream});
      }
      for (Held& each : held) heap.give(each);
    }
    heap.report(state);
  }
}
BENCHMARK_TEMPLATE(one_shot_streams, TidepoolPeer)->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(one_shot_streams, LinearPool)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tidepool::bench
