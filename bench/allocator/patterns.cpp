#include "bench/allocator/patterns.h"

#include <algorithm>

#include "allocator/base/sizes.h"

namespace tidepool::bench {
namespace {

void training_steps(Workload& heap) {
  constexpr size_t kLayers = 200;
  std::vector<Held> weights(kLayers);
  std::vector<Held> activations(kLayers);
  for (size_t k = 0; k < kLayers; ++k) weights[k] = heap.take(mixed_bytes(k, 8 * kMiB));
  for (size_t step = 0; step < 3; ++step) {
    for (size_t k = 0; k < kLayers; ++k) {
      Held workspace = heap.take(4 * kMiB);
      activations[k] = heap.take(mixed_bytes(k * 3, 16 * kMiB));
      heap.give(workspace);
    }
    for (size_t k = kLayers; k-- > 0;) {
      Held gradient = heap.take(activations[k].bytes);
      Held of_weight = heap.take(weights[k].bytes);
      heap.give(activations[k]);
      heap.give(of_weight);
      heap.give(gradient);
    }
  }
  for (Held& each : weights) heap.give(each);
}

void growing_batch(Workload& heap) {
  std::vector<Held> held(50);
  for (size_t batch = 30; batch < 90; ++batch) {
    for (size_t k = 0; k < held.size(); ++k) {
      held[k] = heap.take(batch * mixed_bytes(k, 256 * kKiB));
    }
    for (size_t k = held.size(); k-- > 0;) heap.give(held[k]);
  }
}

void one_mebibyte(Workload& heap) {
  std::vector<Held> held(300);
  for (size_t k = 0; k < held.size(); ++k) held[k] = heap.take(kMiB - 512 + k % 3 * 512);
  for (size_t k = 0; k < held.size(); k += 3) heap.give(held[k]);
  for (size_t k = 0; k < held.size(); k += 3) held[k] = heap.take(kMiB - 512);
  for (Held& each : held) heap.give(each);
}

void sixteen_then_thirty_two(Workload& heap) {
  std::vector<Held> small(64);
  for (Held& each : small) each = heap.take(16 * kMiB);
  for (size_t k = 0; k < small.size(); k += 2) heap.give(small[k]);
  std::vector<Held> large(32);
  for (Held& each : large) each = heap.take(32 * kMiB);
  for (Held& each : large) heap.give(each);
  for (size_t k = 1; k < small.size(); k += 2) heap.give(small[k]);
}

void one_shot_streams(Workload& heap) {
  for (uint32_t stream = 1; stream <= 24; ++stream) {
    std::vector<Held> held(8);
    for (size_t k = 0; k < held.size(); ++k) {
      held[k] = heap.take(mixed_bytes(k + stream, 8 * kMiB), StreamId{stream});
    }
    for (Held& each : held) heap.give(each);
  }
}

constexpr Pattern kPatterns[] = {
    {"training_steps", 32 * kGiB, &training_steps},
    {"growing_batch", 32 * kGiB, &growing_batch},
    {"one_mebibyte", 2 * kGiB, &one_mebibyte},
    {"sixteen_then_thirty_two", 3 * kGiB / 2, &sixteen_then_thirty_two},
    {"one_shot_streams", 4 * kGiB, &one_shot_streams},
};

}  // namespace

Held Workload::take(size_t bytes, StreamId stream) {
  ++requests_;
  void* address = peer_.allocate(bytes, stream);
  if (address == nullptr) {
    ++refused_;
    return {};
  }
  live_bytes_ += bytes;
  live_peak_bytes_ = std::max(live_peak_bytes_, live_bytes_);
  return {address, bytes, stream};
}

void Workload::give(Held& held) {
  if (held.address == nullptr) return;
  live_bytes_ -= held.bytes;
  peer_.free(held.address, held.bytes, held.stream);
  held.address = nullptr;
}

size_t mixed_bytes(size_t k, size_t most) {
  return 512 + k * 0x9e3779b97f4a7c15u % most / 512 * 512;
}

std::span<const Pattern> patterns() { return kPatterns; }

}  // namespace tidepool::bench
