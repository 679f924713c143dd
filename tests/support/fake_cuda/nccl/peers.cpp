#include "tests/support/fake_cuda/nccl/peers.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

namespace tidepool::fake_cuda::nccl {
namespace {

constexpr int kAskAgainUs = 1000;

struct Greeting {
  int ranks;
  int rank;
};

struct Address {
  sockaddr_un place;
  socklen_t bytes;
};

// A name that begins with a zero is no file.
Address address_of(const std::string& name, int rank) {
  Address address{};
  address.place.sun_family = AF_UNIX;
  const std::string text = name + '.' + std::to_string(rank);
  const size_t size = std::min(text.size(), sizeof(address.place.sun_path) - 1);
  std::memcpy(address.place.sun_path + 1, text.data(), size);
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  return address;
}

Socket made() { return Socket(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

Socket listening(const Address& address) {
  Socket made_one = made();
  const auto* const place = reinterpret_cast<const sockaddr*>(&address.place);
  if (bind(made_one.get(), place, address.bytes) != 0) return Socket();
  if (listen(made_one.get(), SOMAXCONN) != 0) return Socket();
  return made_one;
}

// Waits until somebody listens there.
Socket connected(const Address& address) {
  while (true) {
    Socket made_one = made();
    const auto* const place = reinterpret_cast<const sockaddr*>(&address.place);
    if (connect(made_one.get(), place, address.bytes) == 0) return made_one;
    if (errno != ECONNREFUSED && errno != EINTR && errno != EAGAIN) return Socket();
    usleep(kAskAgainUs);
  }
}

Socket accepted(const Socket& listener) {
  while (true) {
    const int descriptor = accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor >= 0 || errno != EINTR) return Socket(descriptor);
  }
}

// Each says who it is; true if both mean the same meeting.
bool greet(const Socket& socket, const Greeting& own, Greeting& other) {
  if (send(socket.get(), &own, sizeof(own), MSG_NOSIGNAL) != sizeof(own)) return false;
  ssize_t got = 0;
  do {
    got = recv(socket.get(), &other, sizeof(other), MSG_WAITALL);
  } while (got < 0 && errno == EINTR);
  return got == sizeof(other) && other.ranks == own.ranks;
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// One end of an exchange. Each step moves what can be moved at once.
struct Transfer {
  int descriptor;
  const Bytes* outgoing;
  Bytes* incoming;
  size_t sent = 0;
  size_t received = 0;

  bool sends() const { return sent < outgoing->size(); }
  bool receives() const { return received < incoming->size(); }
  bool step_out() {
    const ssize_t count =
        send(descriptor, outgoing->data() + sent, outgoing->size() - sent, MSG_NOSIGNAL);
    if (count < 0) return would_block();
    sent += static_cast<size_t>(count);
    return true;
  }
  bool step_in() {
    const ssize_t count =
        recv(descriptor, incoming->data() + received, incoming->size() - received, 0);
    if (count <= 0) return count < 0 && would_block();
    received += static_cast<size_t>(count);
    return true;
  }
};

}  // namespace

Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::unique_ptr<Peers> Peers::meet(const std::string& name, int ranks, int rank) {
  const Socket listener = listening(address_of(name, rank));
  if (!listener) return nullptr;
  std::vector<Socket> sockets(static_cast<size_t>(ranks));
  for (int met = 0; met + 1 < ranks; ++met) {
    const bool goes = met < rank;  // to those of lower rank, one by one; the others come
    Socket socket = goes ? connected(address_of(name, met)) : accepted(listener);
    Greeting other{};
    if (!socket || !greet(socket, {ranks, rank}, other)) return nullptr;
    const bool fits = goes ? other.rank == met : other.rank > rank && other.rank < ranks;
    if (!fits || sockets[static_cast<size_t>(other.rank)]) return nullptr;
    sockets[static_cast<size_t>(other.rank)] = std::move(socket);
  }
  for (const Socket& socket : sockets) {
    if (socket) fcntl(socket.get(), F_SETFL, O_NONBLOCK);
  }
  return std::unique_ptr<Peers>(new Peers(std::move(sockets)));
}

bool Peers::exchange(const std::vector<Bytes>& outgoing, std::vector<Bytes>& incoming) const {
  std::vector<Transfer> transfers;
  for (size_t rank = 0; rank < sockets_.size(); ++rank) {
    if (sockets_[rank]) {
      transfers.push_back({sockets_[rank].get(), &outgoing[rank], &incoming[rank]});
    }
  }
  while (true) {
    std::vector<pollfd> polled;
    for (const Transfer& each : transfers) {
      const int events = (each.sends() ? POLLOUT : 0) | (each.receives() ? POLLIN : 0);
      // A negative descriptor is not polled.
      polled.push_back({events != 0 ? each.descriptor : -1, static_cast<short>(events), 0});
    }
    const bool is_over =
        std::all_of(polled.begin(), polled.end(), [](const pollfd& each) { return each.fd < 0; });
    if (is_over) return true;
    if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return false;
    for (size_t k = 0; k < polled.size(); ++k) {
      Transfer& each = transfers[k];
      if (polled[k].revents == 0) continue;
      if (each.sends() && !each.step_out()) return false;
      if (each.receives() && !each.step_in()) return false;
    }
  }
}

void Peers::shut() const {
  for (const Socket& socket : sockets_) {
    if (socket) shutdown(socket.get(), SHUT_RDWR);
  }
}

}  // namespace tidepool::fake_cuda::nccl
