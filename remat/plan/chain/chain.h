// least_cuts: where to cut a chain of layers so that a training step takes the fewest bytes, after
// Hong et al. (2025). What lies at a cut is kept from the forward pass on; the layers between two
// cuts, a segment, run again when the backward pass comes to them, and keep what it needs until it
// has passed them. With bytes of the checkpoints counted apart,
//   least(i) = min over j > i of max(kept(i, j) + least(j), U(i, j)),   least(n) = 0,
// where U(i, j) is the most that the segment of the layers i + 1 to j takes: while it runs first,
// while it runs again, and in its backward pass. Checkpoints after j have gone by then, which makes
// this a maximum and no sum. Hong et al. take for U a sum over the segment and its largest
// gradient; here each layer comes with its own peaks, so that U is exact.
// Where U does not fall with j, two pointers that only go left find all minima in O(n). Where it
// may (large workspaces), or where values lie across several cuts, all pairs are tried, in O(n²).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tidepool::remat {

// All are bytes. "Other bytes" are all that cutting the chain elsewhere does not change: the
// gradient on its way back, parameters, and so on.
struct ChainLayer {
  size_t kept = 0;     // what lies at a cut behind the layer
  size_t saved = 0;    // what it leaves for the backward pass when it runs for it
  size_t forward = 0;  // the most while it runs first, checkpoints excepted, other bytes included
  // The most while it runs again, other bytes and what layers before it have saved excepted: if
  // layers of its segment follow, and if it is the segment's last, whose result is not needed.
  size_t again = 0, again_last = 0;
  size_t backward = 0;  // the most in its backward pass, what layers before it have saved excepted
  size_t rest = 0;      // the other bytes when the backward pass comes to it
};

// ChainSpan: a value that lies at several cuts: those behind the layers `first` to `last`, counted
// from 0. Two checkpoints keep it only once.
struct ChainSpan {
  uint32_t first = 0, last = 0;
  size_t bytes = 0;  // contained in ChainLayer::kept of all these layers
};

struct Chain {
  std::vector<ChainLayer> layers;
  std::vector<ChainSpan> spans;
};

// A chain whose layer k makes `outputs[k]` bytes, from which, without them, the gradient of what it
// read is computed, with `workspaces[k]` bytes at each run. `input`: the bytes of what the first
// layer reads. Requires: as many workspaces as outputs.
Chain simple_chain(size_t input, std::span<const size_t> outputs,
                   std::span<const size_t> workspaces);

struct ChainCuts {
  size_t bytes = 0;            // the peak with these cuts
  std::vector<uint32_t> cuts;  // the layers behind which it is cut, ascending; never the last
  bool least = true;           // whether no other cuts have a lower peak
};

// Chains of at most so many layers are always solved; longer ones that need O(n²) get cuts that may
// not be the best.
inline constexpr size_t kMostPairedLayers = 20'000;

ChainCuts least_cuts(const Chain& chain);

}  // namespace tidepool::remat
