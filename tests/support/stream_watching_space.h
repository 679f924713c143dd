// StreamWatchingSpace: wraps an AddressSpace and asks SimulatedStreams, before any page loses its
// place, whether its users are known to be through. The first that is not throws PageInUse, which
// no one but a test catches.
// Does not own what it wraps. Thread safe where the wrapped space is, but for SimulatedStreams'
// oracle.
#pragma once

#include "allocator/space/address_space.h"
#include "tests/support/simulated_streams.h"

namespace tidepool::test {

class PageInUse : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

class StreamWatchingSpace final : public AddressSpace {
 public:
  StreamWatchingSpace(AddressSpace& inner, SimulatedStreams& streams)
      : inner_(inner), streams_(streams) {}

  size_t granularity() const override { return inner_.granularity(); }
  size_t mapping_limit() const override { return inner_.mapping_limit(); }
  bool has_virtual_memory() const override { return inner_.has_virtual_memory(); }
  Address reserve(size_t bytes) override { return inner_.reserve(bytes); }
  void release_range(Address start, size_t bytes) override { inner_.release_range(start, bytes); }
  HandleId create_handle(size_t bytes) override { return inner_.create_handle(bytes); }
  void release_handle(HandleId handle) override { inner_.release_handle(handle); }
  void map(Address address, size_t bytes, HandleId handle) override {
    inner_.map(address, bytes, handle);
  }
  void set_access(Address address, size_t bytes) override { inner_.set_access(address, bytes); }
  void unmap(Address address, size_t bytes) override {
    watch(address, bytes);
    inner_.unmap(address, bytes);
  }
  MoveResult move(HandleId handle, Address from, Address to, size_t bytes) override {
    watch(from, bytes);
    return inner_.move(handle, from, to, bytes);
  }
  void fill(Address address, size_t bytes, unsigned char value) override {
    inner_.fill(address, bytes, value);
  }

 private:
  void watch(Address address, size_t bytes) {
    std::string race = streams_.take_away(address, bytes);
    if (!race.empty()) throw PageInUse(race);
  }

  AddressSpace& inner_;
  SimulatedStreams& streams_;
};

}  // namespace tidepool::test
