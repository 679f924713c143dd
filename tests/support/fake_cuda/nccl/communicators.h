// Communicators of NCCL between devices of one process, and what is asked of them. A group of one
// rank is whole by itself; the ranks of a larger one have to call within one ncclGroupStart() and
// ncclGroupEnd() of one thread, as PyTorch's do. Values are exact: sums of 16-bit numbers over
// several ranks are refused. Thread safe, as NCCL is.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace tidepool::fake_cuda::nccl {

// ncclResult_t.
enum Result { kSuccess = 0, kUnhandledCudaError = 1, kInvalidArgument = 4, kInvalidUsage = 5 };

struct Clique {
  int ranks = 0;
};

struct Communicator {
  std::shared_ptr<Clique> clique;
  int rank = 0;
};

enum class Kind {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kSend,
  kReceive
};

struct Request {
  const char* name;  // of the function
  Kind kind;
  const void* sent;
  void* received;
  size_t count;   // elements, as the function counts them
  int type;       // ncclDataType_t
  int operation;  // ncclRedOp_t
  int peer;       // the root, or the other rank
  Communicator* communicator;
  void* stream;
};

// ncclGroupStart() and ncclGroupEnd(): calls nest, and the outermost end runs the requests.
void begin_group();
Result end_group();
// Runs the request, or has the group that has begun on this thread run it.
Result request(const Request& request);

}  // namespace tidepool::fake_cuda::nccl
