#include "tests/support/fake_cuda/nccl/transfers.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "tests/support/fake_cuda/control.h"
#include "tests/support/fake_cuda/nccl/communicators.h"
#include "tests/support/fake_cuda/nccl/short_floats.h"

namespace tidepool::fake_cuda::nccl {
namespace {

constexpr size_t kTypeBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
constexpr int kLastWithSums = 9;
constexpr int kAverage = 4;

// Calls visit() with an element of the type in which a type's sums are made, and functions between
// the two.
template <class Visit>
Bytes with_type(int type, Visit&& visit) {
  const auto same = [](auto value) { return value; };
  switch (type) {
    case 0:
      return visit(int8_t{}, int8_t{}, same, same);
    case 1:
      return visit(uint8_t{}, uint8_t{}, same, same);
    case 2:
      return visit(int32_t{}, int32_t{}, same, same);
    case 3:
      return visit(uint32_t{}, uint32_t{}, same, same);
    case 4:
      return visit(int64_t{}, int64_t{}, same, same);
    case 5:
      return visit(uint64_t{}, uint64_t{}, same, same);
    case 6:
      return visit(uint16_t{}, float{}, float_of_half, half_of);
    case 8:
      return visit(double{}, double{}, same, same);
    case 9:
      return visit(uint16_t{}, float{}, float_of_bfloat, bfloat_of);
    default:
      return visit(float{}, float{}, same, same);
  }
}

template <class T>
std::span<T> elements(Bytes& bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

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

Bytes reduced(const Request& request, std::vector<Bytes>& parts) {
  const auto reduce = [&](auto stored, auto wide, auto&& widen, auto&& narrow) {
    using Stored = decltype(stored);
    using Wide = decltype(wide);
    for (size_t k = 0; k < elements<Stored>(parts[0]).size(); ++k) {
      Wide sum = widen(elements<Stored>(parts[0])[k]);
      for (size_t rank = 1; rank < parts.size(); ++rank) {
        const Wide other = widen(elements<Stored>(parts[rank])[k]);
        sum = combined<Wide>(sum, other, request.operation);
      }
      if (request.operation == kAverage)
        sum = static_cast<Wide>(sum / static_cast<Wide>(parts.size()));
      elements<Stored>(parts[0])[k] = narrow(sum);
    }
    return parts[0];
  };
  return parts.size() == 1 ? parts[0] : with_type(request.type, reduce);
}

size_t block_bytes(const Request& request) { return request.count * kTypeBytes[request.type]; }

size_t ranks_of(const Request& request) { return static_cast<size_t>(request.communicator->ranks); }

bool reduces(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter;
}

// Each rank has a block of its own for each.
bool is_in_blocks(Kind kind) { return kind == Kind::kReduceScatter || kind == Kind::kAllToAll; }

bool is_root(const Request& request) { return request.peer == request.communicator->rank; }

}  // namespace

bool is_known(const Request& request) {
  if (request.type < 0 || request.type >= static_cast<int>(std::size(kTypeBytes))) return false;
  const bool computes = reduces(request.kind) && ranks_of(request) > 1;
  return !(computes || request.factor) || request.type <= kLastWithSums;
}

bool is_pairwise(const Request& request) {
  return request.kind == Kind::kSend || request.kind == Kind::kReceive;
}

size_t sent_bytes(const Request& request) {
  if (request.kind == Kind::kReceive) return 0;
  if (request.kind == Kind::kBroadcast && !is_root(request)) return 0;
  return block_bytes(request) * (is_in_blocks(request.kind) ? ranks_of(request) : 1);
}

size_t received_bytes(const Request& request) {
  const Kind kind = request.kind;
  if (kind == Kind::kSend) return 0;
  if ((kind == Kind::kReduce || kind == Kind::kGather) && !is_root(request)) return 0;
  const bool all = kind == Kind::kAllGather || kind == Kind::kGather || kind == Kind::kAllToAll;
  return block_bytes(request) * (all ? ranks_of(request) : 1);
}

void declare_uses(const Request& request) {
  const size_t sent = sent_bytes(request);
  const size_t received = received_bytes(request);
  if (sent != 0) fake_cuda_range_used(request.sent, sent, request.stream);
  if (received != 0) fake_cuda_range_written(request.received, received, request.stream);
}

std::optional<Bytes> part_for(const Request& request, const Bytes& sent, int rank) {
  const bool to_one =
      request.kind == Kind::kReduce || request.kind == Kind::kGather || request.kind == Kind::kSend;
  if (to_one && rank != request.peer) return std::nullopt;
  if (request.kind == Kind::kReceive) return std::nullopt;
  if (request.kind == Kind::kBroadcast && !is_root(request)) return std::nullopt;
  if (!is_in_blocks(request.kind) || sent.empty()) return sent;
  const auto size = static_cast<ptrdiff_t>(block_bytes(request));
  const auto first = sent.begin() + rank * size;
  return Bytes(first, first + size);
}

std::optional<size_t> part_from(const Request& request, int rank) {
  const bool from_one = request.kind == Kind::kBroadcast || request.kind == Kind::kReceive;
  if (from_one && rank != request.peer) return std::nullopt;
  const bool to_root = request.kind == Kind::kReduce || request.kind == Kind::kGather;
  if (request.kind == Kind::kSend || (to_root && !is_root(request))) return std::nullopt;
  return block_bytes(request);
}

Bytes made_of(const Request& request, std::vector<Bytes>& parts) {
  if (reduces(request.kind)) return reduced(request, parts);
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Bytes scaled(const Request& request, Bytes sent) {
  if (!request.factor) return sent;
  return with_type(request.type, [&](auto stored, auto wide, auto&& widen, auto&& narrow) {
    using Wide = decltype(wide);
    for (auto& element : elements<decltype(stored)>(sent)) {
      element = narrow(static_cast<Wide>(widen(element) * static_cast<Wide>(*request.factor)));
    }
    return sent;
  });
}

std::optional<double> number_at(const void* element, int type) {
  if (type < 0 || type > kLastWithSums) return std::nullopt;
  double number = 0;
  with_type(type, [&](auto stored, auto, auto&& widen, auto&&) {
    std::memcpy(&stored, element, sizeof(stored));
    number = static_cast<double>(widen(stored));
    return Bytes();
  });
  return number;
}

}  // namespace tidepool::fake_cuda::nccl
