// RemoteRanks: what a communicator whose ranks are in several processes has been asked for, in
// order, and the thread that does it with the others, as a device would. Ranks have to ask for the
// same things in the same order; where they do not, or one of them has gone, what is asked for
// fails, and so does all that follows. Thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tests/support/fake_cuda/core/remote_work.h"
#include "tests/support/fake_cuda/nccl/peers.h"
#include "tests/support/fake_cuda/nccl/transfers.h"

namespace tidepool::fake_cuda::nccl {

// A collective, or what a group sends and receives.
struct Job {
  std::vector<Request> requests;
  std::vector<std::optional<Bytes>> sent;  // nullopt: to be read once what comes before is done
  Works earlier;                           // what the streams do before, and is not done
  std::shared_ptr<RemoteWork> work = std::make_shared<RemoteWork>();
};

class RemoteRanks {
 public:
  RemoteRanks(std::unique_ptr<Peers> peers, int ranks, int rank);
  // Waits for what was asked for.
  ~RemoteRanks();
  RemoteRanks(const RemoteRanks&) = delete;
  RemoteRanks& operator=(const RemoteRanks&) = delete;

  // Enqueues requests, as one job, as operations of their streams.
  Result request(std::vector<Request> requests);
  // Returns by rank what each one gives, after all that was asked for before; empty if one has
  // gone.
  std::vector<int64_t> gathered(int64_t own);
  // What has failed so far.
  Result error() const;
  // Whatever is underway or waits ends as if it was done, and has written nothing more.
  void abort();

 private:
  struct State;
  struct Captured;

  Result start(std::shared_ptr<Job> job);

  std::shared_ptr<State> state_;
};

}  // namespace tidepool::fake_cuda::nccl
