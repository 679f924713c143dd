// Peers: the ranks of one communicator that are in several processes, and bytes between them.
// They meet at sockets of Linux's abstract names, which are no files and go with their processes.
// exchange() is for one thread; shut() may come from any.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/fake_cuda/nccl/transfers.h"

namespace tidepool::fake_cuda::nccl {

// A file descriptor.
class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

class Peers {
 public:
  // Returns once all ranks that name the same meeting are here; null where one of them has gone
  // again, is there twice or means another number of ranks.
  static std::unique_ptr<Peers> meet(const std::string& name, int ranks, int rank);

  // Sends outgoing[k] to rank k, and fills incoming[k] with as many bytes from it as there is room
  // for; both are empty for this rank itself. False: a rank has gone.
  bool exchange(const std::vector<Bytes>& outgoing, std::vector<Bytes>& incoming) const;
  // Ends exchanges, here and at the others.
  void shut() const;

 private:
  explicit Peers(std::vector<Socket> sockets) : sockets_(std::move(sockets)) {}

  std::vector<Socket> sockets_;  // by rank
};

}  // namespace tidepool::fake_cuda::nccl
