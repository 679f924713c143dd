// ForwardingSpace: hands every call on to another AddressSpace. Those that wrap one, to count calls
// or to make them fail, override the calls that they are about.
// Does not own what it wraps. As thread safe as that.
#pragma once

#include "allocator/space/address_space.h"

namespace tidepool::test {

class ForwardingSpace : public AddressSpace {
 public:
  explicit ForwardingSpace(AddressSpace& inner) : inner_(inner) {}

  size_t granularity() const override { return inner_.granularity(); }
  size_t mapping_limit() const override { return inner_.mapping_limit(); }
  bool has_virtual_memory() const override { return inner_.has_virtual_memory(); }
  size_t available_bytes() override { return inner_.available_bytes(); }
  Address reserve(size_t bytes) override { return inner_.reserve(bytes); }
  void release_range(Address start, size_t bytes) override { inner_.release_range(start, bytes); }
  HandleId create_handle(size_t bytes) override { return inner_.create_handle(bytes); }
  void release_handle(HandleId handle) override { inner_.release_handle(handle); }
  void map(Address address, size_t bytes, HandleId handle) override {
    inner_.map(address, bytes, handle);
  }
  void set_access(Address address, size_t bytes) override { inner_.set_access(address, bytes); }
  void unmap(Address address, size_t bytes) override { inner_.unmap(address, bytes); }
  MoveResult move(HandleId handle, Address from, Address to, size_t bytes) override {
    return inner_.move(handle, from, to, bytes);
  }
  void fill(Address address, size_t bytes, unsigned char value) override {
    inner_.fill(address, bytes, value);
  }

 protected:
  AddressSpace& inner_;
};

}  // namespace tidepool::test
