// Communicators of NCCL, and what is asked of them. Ranks whose communicators are made within one
// ncclGroupStart() and ncclGroupEnd() of one thread, all of them, have to call within such groups,
// too, as PyTorch's do: their values are moved when the group ends. Ranks of other groups find each
// other (remote_ranks.h), in several processes as in one. A group of one rank is whole by itself.
// Thread safe, as NCCL is.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/fake_cuda/nccl/remote_ranks.h"
#include "tests/support/fake_cuda/nccl/transfers.h"

namespace tidepool::fake_cuda::nccl {

// From this number on operations are a communicator's own.
constexpr int kFirstMadeOperation = 5;

// Ranks of one thread.
struct Clique {};

struct Communicator {
  int ranks = 0;
  int rank = 0;
  std::string name;  // of the meeting
  std::shared_ptr<Clique> clique;
  std::unique_ptr<RemoteRanks> remote = nullptr;  // null: see clique
  int splits = 0;
  std::vector<double> factors = {};  // of operations that it has made, which are never used again
};

// Makes a communicator, which may be used once the group that has begun on this thread ends.
Result join(Communicator** communicator, const std::string& name, int ranks, int rank);
// Those of all devices of this process.
void join_all(Communicator** communicators, int count);
// Of the ranks that give the same color, in the order of their keys; null for a negative color.
Result split(Communicator& whole, int color, int key, Communicator** part);

// ncclGroupStart() and ncclGroupEnd(): calls nest, and the outermost end runs the requests.
void begin_group();
Result end_group();
// Runs the request, or has the group that has begun on this thread run it.
Result request(Request request);

}  // namespace tidepool::fake_cuda::nccl
