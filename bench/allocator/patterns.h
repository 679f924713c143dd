// Patterns of requests that allocators are known to be slow or wasteful with, as functions on any
// Peer; and Workload, which counts what is alive.
#pragma once

#include <span>
#include <vector>

#include "bench/allocator/peer.h"

namespace tidepool::bench {

struct Held {
  void* address = nullptr;
  size_t bytes = 0;
  StreamId stream = StreamId::kDefault;
};

// A peer's blocks. Not thread safe; does not own the peer.
class Workload {
 public:
  explicit Workload(Peer& peer) : peer_(peer) {}

  Held take(size_t bytes, StreamId stream = StreamId::kDefault);
  void give(Held& held);

  size_t requests() const { return requests_; }
  size_t refused() const { return refused_; }
  size_t live_peak_bytes() const { return live_peak_bytes_; }

 private:
  Peer& peer_;
  size_t live_bytes_ = 0;
  size_t live_peak_bytes_ = 0;
  size_t requests_ = 0;
  size_t refused_ = 0;
};

// `k`-th of a sequence of sizes below about `most` that repeats late.
size_t mixed_bytes(size_t k, size_t most);

struct Pattern {
  const char* name;
  size_t device_bytes;              // on which it is to run
  void (*run)(Workload& workload);  // frees all that it takes
};

// training_steps: three steps of 200 layers: forward allocates an activation and frees a workspace
// per layer, backward frees activations in reverse, with a gradient beside each.
// growing_batch: 60 batches that grow by about a thirtieth: what fitted the last fits none of this.
// one_mebibyte: 300 blocks just below, at and above 1 MiB, where others change pools; every third
// freed, and its room asked for again.
// sixteen_then_thirty_two: 64 blocks of 16 MiB on 1.5 GiB, every other one freed, then 32 MiB asked
// for 32 times: without moving pages 16 of them can be served.
// one_shot_streams: each of 24 streams allocates and frees once, and is never seen again.
std::span<const Pattern> patterns();

}  // namespace tidepool::bench
