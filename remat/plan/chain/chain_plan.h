// plan_chain: a schedule for a trace that drops results of its forward passes between a few cuts,
// as torch.utils.checkpoint does between modules, and computes each segment once more when the
// backward pass comes to it. The cuts are found by least_cuts() (chain.h), in milliseconds.
// A forward pass ends where most bytes of results wait to be read again; a trace with several such
// turns (several steps, two optimizers) is planned turn by turn, as long as its peak falls. Behind
// each operator lies what later operators of the forward pass read: one result where the network is
// a chain, and more across skip connections, which checkpoints share. A cut lies where that is
// little. The schedule is then counted operator by operator, so `bytes` is no estimate: in memory
// where bytes are fungible the trace runs with it. A runtime whose memory has pages, or that evicts
// by price, may need more; one that also nests replays may need less.
// Thread safe: plans share nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "remat/plan/chain/turn.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

struct ChainPlan {
  size_t bytes = 0;             // the most that the trace holds with the schedule
  uint64_t replay_ns = 0;       // the cost of the operators that run again
  size_t turns = 0;             // the turns that were planned
  size_t places = 0, cuts = 0;  // where it may be cut; where it is cut
  size_t widest_cut = 0;        // the most results that lie at one cut: 1 in a chain
  std::vector<bool> dropped;    // by storage: whether it is dropped and made again
  std::vector<Rerun> reruns;    // what runs again, in its order
};

ChainPlan plan_chain(const Trace& trace);

}  // namespace tidepool::remat
