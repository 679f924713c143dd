#include "tests/support/faulty_space.h"

#include "allocator/base/device_broken.h"

namespace tidepool {

const char* name_of(DeviceCall call) {
  switch (call) {
    case DeviceCall::kReserve:
      return "reserve";
    case DeviceCall::kReleaseRange:
      return "release_range";
    case DeviceCall::kCreateHandle:
      return "create_handle";
    case DeviceCall::kReleaseHandle:
      return "release_handle";
    case DeviceCall::kMap:
      return "map";
    case DeviceCall::kSetAccess:
      return "set_access";
    case DeviceCall::kUnmap:
      return "unmap";
    case DeviceCall::kMove:
      return "move";
    case DeviceCall::kAny:
      return "any call";
  }
  return "?";
}

void FaultySpace::fail_at(DeviceCall call, size_t n, bool for_ever) {
  failing_ = call;
  fail_number_ = calls_[static_cast<size_t>(call)] + n;
  for_ever_ = for_ever;
  failed_ = false;
}

void FaultySpace::fail_never() { fail_number_ = 0; }

bool FaultySpace::fails(DeviceCall call) {
  if (before_call_) before_call_(call);
  ++calls_[static_cast<size_t>(call)];
  ++calls_[static_cast<size_t>(DeviceCall::kAny)];
  if (fail_number_ == 0 || (failing_ != call && failing_ != DeviceCall::kAny)) return false;
  size_t number = calls_[static_cast<size_t>(failing_)];
  bool failing = number == fail_number_ || (for_ever_ && number > fail_number_);
  failed_ |= failing;
  return failing;
}

void FaultySpace::throw_if_failing(DeviceCall call) {
  if (is_broken_) throw DeviceBroken(std::string(name_of(call)) + ": the device is broken");
  if (fails(call)) throw DeviceError(std::string(name_of(call)) + ": fault injected");
}

Address FaultySpace::reserve(size_t bytes) {
  throw_if_failing(DeviceCall::kReserve);
  return inner_.reserve(bytes);
}

void FaultySpace::release_range(Address start, size_t bytes) {
  throw_if_failing(DeviceCall::kReleaseRange);
  inner_.release_range(start, bytes);
}

HandleId FaultySpace::create_handle(size_t bytes) {
  throw_if_failing(DeviceCall::kCreateHandle);
  if (available_bytes() < bytes) throw DeviceError("create_handle: the device is full");
  const HandleId handle = inner_.create_handle(bytes);
  handles_[handle] = bytes;
  held_bytes_ += bytes;
  return handle;
}

void FaultySpace::release_handle(HandleId handle) {
  throw_if_failing(DeviceCall::kReleaseHandle);
  inner_.release_handle(handle);
  held_bytes_ -= handles_.at(handle);
  handles_.erase(handle);
}

void FaultySpace::map(Address address, size_t bytes, HandleId handle) {
  throw_if_failing(DeviceCall::kMap);
  inner_.map(address, bytes, handle);
}

void FaultySpace::set_access(Address address, size_t bytes) {
  throw_if_failing(DeviceCall::kSetAccess);
  inner_.set_access(address, bytes);
}

void FaultySpace::unmap(Address address, size_t bytes) {
  throw_if_failing(DeviceCall::kUnmap);
  inner_.unmap(address, bytes);
}

MoveResult FaultySpace::move(HandleId handle, Address from, Address to, size_t bytes) {
  const bool failing = fails(DeviceCall::kMove);
  if (failing && !half_way_) return MoveResult::kStayed;
  const MoveResult result = inner_.move(handle, from, to, bytes);
  if (!failing || result != MoveResult::kMoved) return result;
  inner_.unmap(to, bytes);
  return MoveResult::kUnmapped;
}

}  // namespace tidepool
