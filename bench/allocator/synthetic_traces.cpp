#include "bench/allocator/synthetic_traces.h"

#include "allocator/base/sizes.h"

namespace tidepool::bench {
namespace {

constexpr size_t kLayers = 24;
constexpr size_t kSteps = 12;

// One training step of a small transformer on `tokens` tokens.
void add_step(Trace& trace, size_t tokens, size_t width) {
  std::vector<uint32_t> kept;
  for (size_t layer = 0; layer < kLayers; ++layer) {
    const uint32_t workspace = trace.allocate(2 * kMiB);
    for (size_t factor : {1, 3, 1, 4, 4, 1}) {  // norm, qkv, attention, both of the MLP, its end
      kept.push_back(trace.allocate(tokens * width * 2 * factor));
      const uint32_t temporary = trace.allocate(tokens * width * 2 * factor / 2);
      trace.free(temporary);
    }
    kept.push_back(trace.allocate(tokens * 4));
    trace.free(workspace);
  }
  uint32_t gradient = trace.allocate(tokens * width * 2);
  while (!kept.empty()) {
    const uint32_t next = trace.allocate(tokens * width * 2);
    trace.free(gradient);
    gradient = next;
    trace.free(kept.back());
    kept.pop_back();
  }
  trace.free(gradient);
}

}  // namespace

Trace training_trace() {
  Trace trace;
  trace.name = "training";
  for (size_t layer = 0; layer < kLayers * 6; ++layer) trace.allocate(768 * 768 * 4 * 4);
  for (size_t step = 0; step < kSteps; ++step) add_step(trace, 4096, 768);
  return trace;
}

Trace varying_trace() {
  Trace trace;
  trace.name = "varying";
  for (size_t layer = 0; layer < kLayers * 6; ++layer) trace.allocate(768 * 768 * 4 * 4);
  for (size_t step = 0; step < kSteps; ++step) {
    add_step(trace, 1024 + step * 0x9e3779b97f4a7c15u % 4096, 768);
  }
  return trace;
}

}  // namespace tidepool::bench
