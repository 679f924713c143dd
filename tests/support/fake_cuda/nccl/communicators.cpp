#include "tests/support/fake_cuda/nccl/communicators.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

#include "tests/support/fake_cuda/control.h"
#include "tests/support/fake_cuda/core/machine.h"
#include "tests/support/fake_cuda/core/stream_calls.h"

namespace tidepool::fake_cuda::nccl {
namespace {

thread_local int t_depth = 0;
thread_local std::vector<Request> t_requests;
thread_local std::vector<Communicator*> t_joining;

// Moves the values. Requires: `ranks` has a request of each rank, in order, or a send and its
// receive.
void move(const std::vector<Request>& ranks) {
  std::vector<Bytes> sent;
  for (const Request& each : ranks) {
    const auto* const first = static_cast<const char*>(each.sent);
    sent.push_back(scaled(each, Bytes(first, first + sent_bytes(each))));
  }
  for (const Request& each : ranks) {
    if (received_bytes(each) == 0) continue;
    std::vector<Bytes> parts;
    for (size_t k = 0; k < ranks.size(); ++k) {
      const auto part = part_for(ranks[k], sent[k], each.communicator->rank);
      if (part && part_from(each, ranks[k].communicator->rank)) parts.push_back(*part);
    }
    const Bytes made = made_of(each, parts);
    std::memcpy(each.received, made.data(), std::min(made.size(), received_bytes(each)));
  }
}

// Runs what belongs together as an operation of each rank's stream.
Result run(const std::vector<Request>& ranks) {
  for (const Request& each : ranks) {
    if (!is_known(each)) return kInvalidArgument;
    if (calls::launch(each.name, each.stream, each.name) != Error::kSuccess) {
      return kUnhandledCudaError;
    }
    declare_uses(each);
  }
  if (machine().settings.touch_memory) move(ranks);
  return kSuccess;
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
  for (int rank = 0; rank < first.communicator->ranks; ++rank) {
    const bool has = take([&](const Request& each) {
      return each.kind == first.kind && each.communicator->rank == rank;
    });
    if (!has) return {};
  }
  return found;
}

Result run_local(std::vector<Request> waiting) {
  while (!waiting.empty()) {
    const std::vector<Request> together = take_next(waiting);
    if (together.empty()) return kInvalidUsage;
    if (const Result result = run(together); result != kSuccess) return result;
  }
  return kSuccess;
}

// Collectives one by one, but all sends and receives of a communicator at once.
Result run_remote(const std::vector<Request>& waiting) {
  std::map<Communicator*, std::vector<Request>> pairwise;
  for (const Request& each : waiting) {
    if (is_pairwise(each)) {
      pairwise[each.communicator].push_back(each);
    } else if (const Result result = each.communicator->remote->request({each});
               result != kSuccess) {
      return result;
    }
  }
  for (auto& [communicator, requests] : pairwise) {
    const Result result = communicator->remote->request(std::move(requests));
    if (result != kSuccess) return result;
  }
  return kSuccess;
}

Result meet(Communicator& communicator) {
  auto peers = Peers::meet(communicator.name, communicator.ranks, communicator.rank);
  if (peers == nullptr) return kSystemError;
  communicator.remote =
      std::make_unique<RemoteRanks>(std::move(peers), communicator.ranks, communicator.rank);
  return kSuccess;
}

// Those that are to be joined as one, when they are all there.
Result join_together(const std::vector<Communicator*>& joining) {
  std::map<std::string, std::vector<Communicator*>> meetings;
  for (Communicator* const each : joining) meetings[each->name].push_back(each);
  for (Communicator* const each : joining) {
    const std::vector<Communicator*>& here = meetings[each->name];
    if (static_cast<int>(here.size()) == each->ranks) {
      each->clique = here.front()->clique;
    } else if (here.size() > 1) {
      return kInvalidUsage;
    } else if (const Result result = meet(*each); result != kSuccess) {
      return result;
    }
  }
  return kSuccess;
}

}  // namespace

Result join(Communicator** communicator, const std::string& name, int ranks, int rank) {
  if (rank < 0 || rank >= ranks) return kInvalidArgument;
  *communicator = new Communicator{
      .ranks = ranks, .rank = rank, .name = name, .clique = std::make_shared<Clique>()};
  begin_group();
  t_joining.push_back(*communicator);
  return end_group();
}

void join_all(Communicator** communicators, int count) {
  const auto clique = std::make_shared<Clique>();
  for (int rank = 0; rank < count; ++rank) {
    communicators[rank] =
        new Communicator{.ranks = count, .rank = rank, .name = "", .clique = clique};
  }
}

Result split(Communicator& whole, int color, int key, Communicator** part) {
  *part = nullptr;
  std::vector<int64_t> given = {static_cast<int64_t>(color) << 32 | static_cast<uint32_t>(key)};
  if (whole.remote != nullptr) {
    given = whole.remote->gathered(given.front());
    if (given.empty()) return kRemoteError;
  } else if (whole.ranks > 1) {
    return kInvalidUsage;
  }
  const std::string name = whole.name + '/' + std::to_string(whole.splits++);
  if (color < 0) return kSuccess;
  int ranks = 0;
  int rank = 0;
  const auto key_of = [&](size_t k) { return static_cast<int32_t>(given[k]); };
  const auto own = static_cast<size_t>(whole.rank);
  for (size_t k = 0; k < given.size(); ++k) {
    if (given[k] >> 32 != color) continue;
    ++ranks;
    const bool is_before = key_of(k) < key_of(own) || (key_of(k) == key_of(own) && k < own);
    if (is_before) ++rank;
  }
  return join(part, name + ',' + std::to_string(color), ranks, rank);
}

void begin_group() { ++t_depth; }

Result end_group() {
  if (t_depth == 0) return kInvalidUsage;
  if (--t_depth > 0) return kSuccess;
  const Result joined = join_together(std::exchange(t_joining, {}));
  if (joined != kSuccess) return joined;
  std::vector<Request> local = std::exchange(t_requests, {});
  const auto middle = std::stable_partition(local.begin(), local.end(), [](const Request& each) {
    return each.communicator->remote == nullptr;
  });
  const std::vector<Request> remote(middle, local.end());
  local.erase(middle, local.end());
  const Result result = run_local(std::move(local));
  return result == kSuccess ? run_remote(remote) : result;
}

Result request(Request request) {
  const int made = request.operation - kFirstMadeOperation;
  if (made >= 0) {
    if (made >= static_cast<int>(request.communicator->factors.size())) return kInvalidArgument;
    request.factor = request.communicator->factors[static_cast<size_t>(made)];
    request.operation = 0;
  }
  begin_group();
  t_requests.push_back(request);
  return end_group();
}

}  // namespace tidepool::fake_cuda::nccl
