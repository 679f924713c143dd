// Transfers: what is asked of a communicator, which bytes that sends and receives, and what is made
// of them. Sums are made in the order of the ranks; those of 16-bit numbers are made of floats and
// rounded once.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace tidepool::fake_cuda::nccl {

// ncclResult_t.
enum Result {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6
};

enum class Kind {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kGather,
  kReduceScatter,
  kAllToAll,
  kSend,
  kReceive
};

struct Communicator;

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
  std::optional<double> factor = std::nullopt;  // of what this rank sends
};

// Allocated bytes are aligned for all types.
using Bytes = std::vector<char>;

// Whether there is such a type, and whether sums of it are known where they are asked for.
bool is_known(const Request& request);

bool is_pairwise(const Request& request);  // a send or a receive

// Of the memory that the rank reads and writes; 0 where it does not.
size_t sent_bytes(const Request& request);
size_t received_bytes(const Request& request);
// Declares that memory used by the newest operation of the request's stream.
void declare_uses(const Request& request);

// What a rank of a communicator gets of the bytes that this one sends; nullopt: nothing.
std::optional<Bytes> part_for(const Request& request, const Bytes& sent, int rank);
// How much this rank gets from another one; nullopt: nothing.
std::optional<size_t> part_from(const Request& request, int rank);
// What this rank writes. Requires: `parts` has by rank what it gets.
Bytes made_of(const Request& request, std::vector<Bytes>& parts);
// The elements times the request's factor, if it has one.
Bytes scaled(const Request& request, Bytes sent);
// An element as a number; nullopt: not of this type.
std::optional<double> number_at(const void* element, int type);

}  // namespace tidepool::fake_cuda::nccl
