// A network of three blocks that is small enough to be counted by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "remat/trace/trace.h"

namespace tidepool::remat {

// Each block makes a wide value of `wide` bytes, in 10 ns, and from that its output of `narrow`
// bytes, in 5 ns; its backward pass reads its input and its wide value. Storages: the input is 0,
// block k makes 2k + 1 and 2k + 2. Operators 0 to 5 are the forward pass, 6 the loss, 7 to 9 the
// backward pass. Inputs of blocks and gradients have `narrow` bytes, too.
inline Trace block_network(size_t wide, size_t narrow) {
  TraceBuilder builder({});
  const auto call = [&](const char* name, uint64_t cost_ns, std::vector<uint64_t> reads,
                        size_t bytes) {
    OperatorCallEntry entry;
    entry.name = name;
    entry.cost_ns = cost_ns;
    entry.reads = reads;
    const std::vector<size_t> outputs{bytes};
    entry.output_bytes = outputs;
    return builder.call(entry);
  };
  builder.root(narrow, RootKind::kInput);
  for (uint64_t block = 0; block < 3; ++block) {
    call("widen", 10, {2 * block}, wide);
    call("narrow", 5, {2 * block + 1}, narrow);
  }
  uint64_t gradient = call("loss", 1, {6}, narrow);
  builder.release(6);
  for (uint64_t block = 3; block-- > 0;) {
    const uint64_t next = call("back", 20, {gradient, 2 * block, 2 * block + 1}, narrow);
    builder.release(gradient);
    builder.release(2 * block + 1);
    builder.release(2 * block);
    gradient = next;
  }
  builder.step();
  return builder.take();
}

}  // namespace tidepool::remat
