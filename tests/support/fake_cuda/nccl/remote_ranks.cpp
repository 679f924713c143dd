#include "tests/support/fake_cuda/nccl/remote_ranks.h"

#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/fake_cuda/control.h"
#include "tests/support/fake_cuda/core/machine.h"
#include "tests/support/fake_cuda/core/stream_calls.h"

namespace tidepool::fake_cuda::nccl {
namespace {

using Ended = RemoteWork::State;

// Comes before each part that is sent. A receive is the send of the other one.
struct Header {
  int kind;
  int type;
  int operation;
  int root;
  uint64_t bytes;
  bool operator==(const Header&) const = default;
};

Header header_of(const Request& request, uint64_t bytes) {
  const bool between_two = is_pairwise(request);
  return {static_cast<int>(between_two ? Kind::kSend : request.kind), request.type,
          request.operation, between_two ? 0 : request.peer, bytes};
}

void append(Bytes& to, const void* from, size_t bytes) {
  const auto* const first = static_cast<const char*>(from);
  to.insert(to.end(), first, first + bytes);
}

Bytes taken(Bytes& from, size_t& at, size_t bytes) {
  const auto first = from.begin() + static_cast<ptrdiff_t>(at);
  at += bytes;
  return Bytes(first, first + static_cast<ptrdiff_t>(bytes));
}

bool touches() { return machine().settings.touch_memory; }

// Runs `use` with the machine locked, if the memory is there; it is nobody's call.
template <class Use>
bool with_memory(const char* name, const void* start, size_t bytes, bool writes, Use&& use) {
  Machine& here = machine();
  const std::lock_guard lock(here.mutex);
  try {
    here.check_accessible(start, bytes, writes);
  } catch (const Refusal& refusal) {
    here.misuses.push_back({name, refusal.error, refusal.what()});
    return false;
  }
  use();
  return true;
}

bool read(const Request& request, Bytes& sent) {
  sent.resize(touches() ? sent_bytes(request) : 0);
  if (sent.empty()) return true;
  const auto copy = [&] { std::memcpy(sent.data(), request.sent, sent.size()); };
  if (!with_memory(request.name, request.sent, sent.size(), false, copy)) return false;
  sent = scaled(request, std::move(sent));
  return true;
}

bool write(const Request& request, const Bytes& made) {
  if (made.empty()) return true;
  const auto copy = [&] { std::memcpy(request.received, made.data(), made.size()); };
  return with_memory(request.name, request.received, made.size(), true, copy);
}

// Does a job with the others.
class Doing {
 public:
  Doing(const Peers& peers, Job& job, int ranks, int rank)
      : peers_(peers), job_(job), ranks_(static_cast<size_t>(ranks)), rank_(rank) {}

  // Moves the bytes. Writes nothing yet.
  Result exchange() {
    for (const auto& earlier : job_.earlier) {
      if (earlier->wait() != Ended::kDone) return kUnhandledCudaError;
    }
    std::vector<Bytes> outgoing(ranks_);
    std::vector<Bytes> incoming(ranks_);
    for (size_t k = 0; k < job_.requests.size(); ++k) {
      if (!job_.sent[k] && !read(job_.requests[k], job_.sent[k].emplace())) {
        return kUnhandledCudaError;
      }
      add(job_.requests[k], *job_.sent[k], outgoing, incoming);
    }
    Bytes own = std::exchange(outgoing[static_cast<size_t>(rank_)], {});
    incoming[static_cast<size_t>(rank_)] = {};
    if (!peers_.exchange(outgoing, incoming)) return kRemoteError;
    incoming[static_cast<size_t>(rank_)] = std::move(own);
    return make(incoming);
  }

  Result write_all() const {
    for (size_t k = 0; k < made_.size(); ++k) {
      if (!write(job_.requests[k], made_[k])) return kUnhandledCudaError;
    }
    return kSuccess;
  }

 private:
  static size_t bytes_of(size_t part) { return touches() ? part : 0; }

  void add(const Request& request, const Bytes& sent, std::vector<Bytes>& outgoing,
           std::vector<Bytes>& incoming) const {
    for (size_t rank = 0; rank < ranks_; ++rank) {
      if (const auto part = part_for(request, sent, static_cast<int>(rank))) {
        const Header header = header_of(request, part->size());
        append(outgoing[rank], &header, sizeof(header));
        append(outgoing[rank], part->data(), part->size());
      }
      if (const auto part = part_from(request, static_cast<int>(rank))) {
        incoming[rank].resize(incoming[rank].size() + sizeof(Header) + bytes_of(*part));
      }
    }
  }

  Result make(std::vector<Bytes>& incoming) {
    std::vector<size_t> at(ranks_);
    for (const Request& request : job_.requests) {
      std::vector<Bytes> parts(ranks_);
      for (size_t rank = 0; rank < ranks_; ++rank) {
        const auto part = part_from(request, static_cast<int>(rank));
        if (!part) continue;
        if (incoming[rank].size() < at[rank] + sizeof(Header) + bytes_of(*part)) {
          return kInvalidUsage;  // to itself it has sent less than it receives
        }
        Header header{};
        std::memcpy(&header, incoming[rank].data() + at[rank], sizeof(header));
        at[rank] += sizeof(header);
        if (header != header_of(request, bytes_of(*part))) return differs(request, rank);
        parts[rank] = taken(incoming[rank], at[rank], bytes_of(*part));
      }
      const bool gets = touches() && received_bytes(request) != 0;
      made_.push_back(gets ? made_of(request, parts) : Bytes());
    }
    return kSuccess;
  }

  Result differs(const Request& request, size_t rank) const {
    std::fprintf(stderr, "fake_nccl: rank %d: rank %zu was asked for something else than %s\n",
                 rank_, rank, request.name);
    return kInvalidUsage;
  }

  const Peers& peers_;
  Job& job_;
  size_t ranks_;
  int rank_;
  std::vector<Bytes> made_;
};

}  // namespace

struct RemoteRanks::State {
  State(std::unique_ptr<Peers> met, int count, int own)
      : peers(std::move(met)), ranks(count), rank(own) {}

  const std::unique_ptr<Peers> peers;
  const int ranks;
  const int rank;
  std::mutex asking;  // held while a job is enqueued on streams and here
  std::mutex mutex;   // of all below
  std::condition_variable changed;
  std::deque<std::shared_ptr<Job>> waiting;  // the first one is underway
  Works failed;
  Result error = kSuccess;
  bool is_over = false;

  void push(std::shared_ptr<Job> job) {
    const std::lock_guard lock(mutex);
    if (is_over) return job->work->end(Ended::kDone);
    waiting.push_back(std::move(job));
    changed.notify_all();
  }

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return is_over || !waiting.empty(); });
      if (is_over) return;
      const std::shared_ptr<Job> job = waiting.front();
      Result result = error;
      Doing doing(*peers, *job, ranks, rank);
      if (result == kSuccess) {
        lock.unlock();
        result = doing.exchange();
        lock.lock();
      }
      if (is_over) return;
      if (result == kSuccess) result = doing.write_all();
      end(*job, result);
    }
  }

  void end(const Job& job, Result result) {
    waiting.pop_front();
    if (result == kSuccess) {
      job.work->end(Ended::kDone);
    } else {
      error = result;
      failed.push_back(job.work);
      job.work->end(Ended::kFailed);
    }
    changed.notify_all();
  }
};

RemoteRanks::RemoteRanks(std::unique_ptr<Peers> peers, int ranks, int rank)
    : state_(std::make_shared<State>(std::move(peers), ranks, rank)) {
  std::thread([state = state_] { state->run(); }).detach();
}

RemoteRanks::~RemoteRanks() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->is_over || state_->waiting.empty(); });
  state_->is_over = true;
  state_->changed.notify_all();
}

// In a graph that is launched, the host waits.
struct RemoteRanks::Captured {
  std::shared_ptr<State> state;
  std::vector<Request> requests;

  static void run(void* captured) {
    const auto* const own = static_cast<Captured*>(captured);
    auto job = std::make_shared<Job>();
    job->requests = own->requests;
    job->sent.resize(own->requests.size());
    own->state->push(job);
    job->work->wait();
  }
  static void drop(void* captured) { delete static_cast<Captured*>(captured); }
};

Result RemoteRanks::request(std::vector<Request> requests) {
  const std::lock_guard lock(state_->asking);
  void* const stream = requests.front().stream;
  const bool is_captured = fake_cuda_capture_work(stream, nullptr, nullptr, nullptr) != 0;
  auto job = std::make_shared<Job>();
  for (const Request& each : requests) {
    if (!is_known(each)) return kInvalidArgument;
    const Error error =
        is_captured ? calls::launch(each.name, each.stream, each.name)
                    : calls::launch_remote(each.name, each.stream, job->work, &job->earlier);
    if (error != Error::kSuccess) {
      job->work->end(Ended::kDone);
      return kUnhandledCudaError;
    }
    declare_uses(each);
  }
  if (is_captured) {
    auto* const captured = new Captured{state_, std::move(requests)};
    fake_cuda_capture_work(stream, Captured::run, Captured::drop, captured);
    return kSuccess;
  }
  job->requests = std::move(requests);
  return start(std::move(job));
}

// What it sends is read now where nothing that is not done comes before.
Result RemoteRanks::start(std::shared_ptr<Job> job) {
  std::erase(job->earlier, job->work);
  for (const Request& each : job->requests) {
    std::optional<Bytes>& sent = job->sent.emplace_back();
    if (job->earlier.empty() && !read(each, sent.emplace())) {
      job->work->end(Ended::kDone);
      return kUnhandledCudaError;
    }
  }
  state_->push(std::move(job));
  return kSuccess;
}

std::vector<int64_t> RemoteRanks::gathered(int64_t own) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->is_over || state_->waiting.empty(); });
  if (state_->is_over || state_->error != kSuccess) return {};
  std::vector<Bytes> outgoing(static_cast<size_t>(state_->ranks));
  for (Bytes& each : outgoing) append(each, &own, sizeof(own));
  std::vector<Bytes> incoming(outgoing.size(), Bytes(sizeof(own)));
  incoming[static_cast<size_t>(state_->rank)] = outgoing[static_cast<size_t>(state_->rank)];
  if (!state_->peers->exchange(outgoing, incoming)) return {};
  std::vector<int64_t> all(incoming.size());
  for (size_t k = 0; k < all.size(); ++k) std::memcpy(&all[k], incoming[k].data(), sizeof(own));
  return all;
}

Result RemoteRanks::error() const {
  const std::lock_guard lock(state_->mutex);
  return state_->error;
}

void RemoteRanks::abort() {
  state_->peers->shut();
  const std::lock_guard lock(state_->mutex);
  state_->is_over = true;
  for (const auto& job : state_->waiting) job->work->end(Ended::kDone);
  for (const auto& work : state_->failed) work->end(Ended::kDone);
  state_->changed.notify_all();
}

}  // namespace tidepool::fake_cuda::nccl
