// StreamWatchingSpace: wraps an AddressSpace and asks SimulatedStreams, before any page loses its
// place, whether its users are known to be through. The first that is not throws PageInUse, which
// no one but a test catches.
// Does not own what it wraps. Thread safe where the wrapped space is, but for SimulatedStreams'
// oracle.
#pragma once

#include "tests/support/forwarding_space.h"
#include "tests/support/simulated_streams.h"

namespace tidepool::test {

class PageInUse : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

class StreamWatchingSpace final : public ForwardingSpace {
 public:
  StreamWatchingSpace(AddressSpace& inner, SimulatedStreams& streams)
      : ForwardingSpace(inner), streams_(streams) {}

  void unmap(Address address, size_t bytes) override {
    watch(address, bytes);
    inner_.unmap(address, bytes);
  }
  MoveResult move(HandleId handle, Address from, Address to, size_t bytes) override {
    watch(from, bytes);
    return inner_.move(handle, from, to, bytes);
  }

 private:
  void watch(Address address, size_t bytes) {
    std::string race = streams_.take_away(address, bytes);
    if (!race.empty()) throw PageInUse(race);
  }

  SimulatedStreams& streams_;
};

}  // namespace tidepool::test
