// FaultySpace: wraps an AddressSpace and makes chosen calls fail, for tests: the n-th call of a
// kind, or of any kind, once or from then on. A failed call does not reach the wrapped space (but
// for a move told to fail half way).
// Does not own what it wraps. Set-up is not thread safe; calls are as the wrapped space's.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <unordered_map>

#include "tests/support/forwarding_space.h"

namespace tidepool {

enum class DeviceCall : uint8_t {
  kReserve,
  kReleaseRange,
  kCreateHandle,
  kReleaseHandle,
  kMap,
  kSetAccess,
  kUnmap,
  kMove,
  kAny,  // of the kinds above
};
const char* name_of(DeviceCall call);

class FaultySpace final : public test::ForwardingSpace {
 public:
  using ForwardingSpace::ForwardingSpace;

  // The n-th call of the kind from now on fails; n counts from 1. `for_ever`: all later ones too.
  void fail_at(DeviceCall call, size_t n, bool for_ever = false);
  void fail_never();
  // Every call fails from now on, as after a kernel's error.
  void break_device() { is_broken_ = true; }
  // True if a planned failure has happened.
  bool failed() const { return failed_; }
  // A failing move leaves the handle mapped nowhere.
  void set_moves_fail_half_way(bool half_way) { half_way_ = half_way; }
  // Handles of no more than so many bytes in all can be had from now on: others use the rest.
  void set_capacity(size_t bytes) { capacity_ = bytes; }
  size_t held_bytes() const { return held_bytes_; }
  // Called before every call, on the caller's thread.
  void set_before_call(std::function<void(DeviceCall)> hook) { before_call_ = std::move(hook); }
  // Calls so far, failed ones included.
  size_t calls(DeviceCall call) const { return calls_[static_cast<size_t>(call)]; }

  size_t available_bytes() override { return capacity_ - std::min(capacity_, held_bytes_); }
  Address reserve(size_t bytes) override;
  void release_range(Address start, size_t bytes) override;
  HandleId create_handle(size_t bytes) override;
  void release_handle(HandleId handle) override;
  void map(Address address, size_t bytes, HandleId handle) override;
  void set_access(Address address, size_t bytes) override;
  void unmap(Address address, size_t bytes) override;
  MoveResult move(HandleId handle, Address from, Address to, size_t bytes) override;

 private:
  bool is_broken_ = false;
  bool fails(DeviceCall call);
  void throw_if_failing(DeviceCall call);

  std::function<void(DeviceCall)> before_call_;
  std::array<size_t, static_cast<size_t>(DeviceCall::kAny) + 1> calls_{};
  DeviceCall failing_ = DeviceCall::kAny;
  size_t fail_number_ = 0;  // of calls_[failing_]; 0: never
  bool for_ever_ = false;
  bool half_way_ = false;
  bool failed_ = false;
  size_t capacity_ = SIZE_MAX;
  size_t held_bytes_ = 0;
  std::unordered_map<HandleId, size_t> handles_;  // their bytes
};

}  // namespace tidepool
