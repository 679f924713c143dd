#include "tests/support/fake_cuda/nccl/communicators.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "tests/support/fake_cuda/control.h"
#include "tests/support/fake_cuda/core/machine.h"
#include "tests/support/fake_cuda/core/stream_calls.h"

namespace tidepool::fake_cuda::nccl {
namespace {

using Bytes = std::vector<char>;

thread_local int t_depth = 0;
thread_local std::vector<Request> t_requests;

constexpr size_t kTypeBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
constexpr int kAverage = 4;

template <class T>
T combined(T left, T right, int operation) {
  switch (operation) {
    case 1:
      return left * right;
    case 2:
      return std::max(left, right);
    case 3:
      return std::min(left, right);
    default:
      return left + right;
  }
}

// Allocated bytes are aligned for all of these types.
template <class T>
std::span<T> elements(Bytes& bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

// What all ranks sent as one, in the order of the ranks.
template <class T>
Bytes reduced_as(std::vector<Bytes>& parts, int operation) {
  const std::span<T> sum = elements<T>(parts.front());
  for (size_t k = 0; k < sum.size(); ++k) {
    for (size_t rank = 1; rank < parts.size(); ++rank) {
      sum[k] = combined(sum[k], elements<T>(parts[rank])[k], operation);
    }
    if (operation == kAverage) sum[k] = static_cast<T>(sum[k] / static_cast<T>(parts.size()));
  }
  return parts.front();
}

// nullopt: not for this type.
std::optional<Bytes> reduced(std::vector<Bytes>& parts, int type, int operation) {
  if (parts.size() == 1) return parts.front();
  switch (type) {
    case 0:
      return reduced_as<int8_t>(parts, operation);
    case 1:
      return reduced_as<uint8_t>(parts, operation);
    case 2:
      return reduced_as<int32_t>(parts, operation);
    case 3:
      return reduced_as<uint32_t>(parts, operation);
    case 4:
      return reduced_as<int64_t>(parts, operation);
    case 5:
      return reduced_as<uint64_t>(parts, operation);
    case 7:
      return reduced_as<float>(parts, operation);
    case 8:
      return reduced_as<double>(parts, operation);
    default:
      return std::nullopt;
  }
}

size_t block_bytes(const Request& request) { return request.count * kTypeBytes[request.type]; }

size_t sent_bytes(const Request& request) {
  const bool all = request.kind == Kind::kReduceScatter || request.kind == Kind::kAllToAll;
  return block_bytes(request) * (all ? request.communicator->clique->ranks : 1);
}

size_t received_bytes(const Request& request) {
  const bool all = request.kind == Kind::kAllGather || request.kind == Kind::kAllToAll;
  return block_bytes(request) * (all ? request.communicator->clique->ranks : 1);
}

bool sends(const Request& request) {
  const bool from_root = request.kind == Kind::kBroadcast;
  return request.kind != Kind::kReceive &&
         (!from_root || request.peer == request.communicator->rank);
}

bool receives(const Request& request) {
  const bool to_root = request.kind == Kind::kReduce;
  return request.kind != Kind::kSend && (!to_root || request.peer == request.communicator->rank);
}

Bytes read(const Request& request) {
  const auto* const first = static_cast<const char*>(request.sent);
  return sends(request) ? Bytes(first, first + sent_bytes(request)) : Bytes();
}

void write(const Request& request, const Bytes& bytes, size_t first) {
  if (receives(request)) {
    std::memcpy(request.received, bytes.data() + first, received_bytes(request));
  }
}

// Moves the values of a collective. Requires: `ranks` has a request of each rank, in order.
Result move(const std::vector<Request>& ranks) {
  std::vector<Bytes> parts;
  for (const Request& each : ranks) parts.push_back(read(each));
  const Request& first = ranks.front();
  const size_t block = block_bytes(first);
  switch (first.kind) {
    case Kind::kAllReduce:
    case Kind::kReduce:
    case Kind::kReduceScatter: {
      const auto sum = reduced(parts, first.type, first.operation);
      if (!sum) return kInvalidArgument;
      const bool scattered = first.kind == Kind::kReduceScatter;
      for (size_t k = 0; k < ranks.size(); ++k) write(ranks[k], *sum, scattered ? k * block : 0);
      break;
    }
    case Kind::kBroadcast:
      for (const Request& each : ranks) write(each, parts[first.peer], 0);
      break;
    case Kind::kAllGather: {
      Bytes all;
      for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
      for (const Request& each : ranks) write(each, all, 0);
      break;
    }
    case Kind::kAllToAll:
      for (size_t k = 0; k < ranks.size(); ++k) {
        Bytes own;
        for (const Bytes& part : parts) {
          own.insert(own.end(), part.begin() + k * block, part.begin() + (k + 1) * block);
        }
        write(ranks[k], own, 0);
      }
      break;
    case Kind::kSend:  // the first of a pair
      write(ranks[1], parts[0], 0);
      break;
    case Kind::kReceive:
      return kInvalidUsage;
  }
  return kSuccess;
}

// Runs what belongs together as an operation of each rank's stream.
Result run(const std::vector<Request>& ranks) {
  for (const Request& each : ranks) {
    if (each.type < 0 || each.type >= static_cast<int>(std::size(kTypeBytes))) {
      return kInvalidArgument;
    }
    if (calls::launch(each.name, each.stream, each.name) != Error::kSuccess) {
      return kUnhandledCudaError;
    }
    if (sends(each)) fake_cuda_range_used(each.sent, sent_bytes(each), each.stream);
    if (receives(each)) fake_cuda_range_written(each.received, received_bytes(each), each.stream);
  }
  return machine().settings.touch_memory ? move(ranks) : kSuccess;
}

bool is_pairwise(const Request& request) {
  return request.kind == Kind::kSend || request.kind == Kind::kReceive;
}

// The requests of a group that belong together, first come first. Empty: one has no counterpart.
std::vector<Request> take_next(std::vector<Request>& waiting) {
  const Request first = waiting.front();
  const Clique* const clique = first.communicator->clique.get();
  std::vector<Request> found;
  const auto take = [&](auto&& wanted) {
    const auto at = std::find_if(waiting.begin(), waiting.end(), [&](const Request& each) {
      return each.communicator->clique.get() == clique && wanted(each);
    });
    if (at == waiting.end()) return false;
    found.push_back(*at);
    waiting.erase(at);
    return true;
  };
  if (is_pairwise(first)) {
    const bool is_sent = first.kind == Kind::kSend;
    const int from = is_sent ? first.communicator->rank : first.peer;
    const int to = is_sent ? first.peer : first.communicator->rank;
    const bool both =
        take([&](const Request& each) {
          return each.kind == Kind::kSend && each.communicator->rank == from && each.peer == to;
        }) &&
        take([&](const Request& each) {
          return each.kind == Kind::kReceive && each.communicator->rank == to && each.peer == from;
        });
    return both ? found : std::vector<Request>();
  }
  for (int rank = 0; rank < clique->ranks; ++rank) {
    const bool has = take([&](const Request& each) {
      return each.kind == first.kind && each.communicator->rank == rank;
    });
    if (!has) return {};
  }
  return found;
}

}  // namespace

void begin_group() { ++t_depth; }

Result end_group() {
  if (t_depth == 0) return kInvalidUsage;
  if (--t_depth > 0) return kSuccess;
  std::vector<Request> waiting = std::exchange(t_requests, {});
  while (!waiting.empty()) {
    const std::vector<Request> together = take_next(waiting);
    if (together.empty()) return kInvalidUsage;
    if (const Result result = run(together); result != kSuccess) return result;
  }
  return kSuccess;
}

Result request(const Request& request) {
  begin_group();
  t_requests.push_back(request);
  return end_group();
}

}  // namespace tidepool::fake_cuda::nccl
