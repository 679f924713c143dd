// AddressSpace: the interface to a device's memory: ranges of addresses, handles, each of which
// stands for a piece of physical memory, and mappings of handles into ranges. Its shape is that of
// CUDA's virtual memory calls, which host memory fits, too.
// Owns nothing that callers see: whoever reserves or creates something also releases it. Thread
// safe.
// Every implementation keeps these rules: (1) addresses and sizes are multiples of
// granularity(); (2) a handle is mapped at one address at most, and only where nothing is mapped;
// (3) mapped bytes may be touched only after set_access; (4) a call that breaks a rule throws
// DeviceError, and one that throws it has changed nothing. The contents of freshly mapped or moved
// memory are undefined.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include "allocator/base/device_error.h"

namespace tidepool {

struct Address {
  uintptr_t value = 0;

  void* pointer() const { return reinterpret_cast<void*>(value); }
  static Address of(const void* pointer) { return {reinterpret_cast<uintptr_t>(pointer)}; }
  friend auto operator<=>(const Address&, const Address&) = default;
  friend Address operator+(Address address, size_t bytes) { return {address.value + bytes}; }
  friend size_t operator-(Address a, Address b) { return a.value - b.value; }
};

// A handle: the name of a piece of the device's physical memory, of the size that it was created
// with.
enum class HandleId : uint64_t { kNone = 0 };

enum class MoveResult : uint8_t {
  kMoved,     // the handle is mapped at `to`, and `from` is empty
  kStayed,    // everything is as before the call
  kUnmapped,  // the handle was taken from `from`, but `to` refused it, so that it is mapped nowhere
};

class AddressSpace {
 public:
  virtual ~AddressSpace() = default;

  // A power of two. Sizes of handles and addresses of mappings are multiples of it.
  virtual size_t granularity() const = 0;
  // How many handles may be mapped at once at places that do not touch each other.
  virtual size_t mapping_limit() const = 0;
  // False: addresses come with their memory. Then what reserve() returns is held from the device
  // until release_range(), handles are mere numbers, and move() always answers kStayed.
  virtual bool has_virtual_memory() const { return true; }

  // Reserves addresses without memory, aligned to granularity(). Throws: DeviceError, as all
  // functions below do unless they say otherwise.
  virtual Address reserve(size_t bytes) = 0;
  // Gives back a range that reserve() returned. Requires: nothing is mapped in it.
  virtual void release_range(Address start, size_t bytes) = 0;

  // How much the device could give now; SIZE_MAX where it does not say. Throws nothing.
  virtual size_t available_bytes() { return SIZE_MAX; }

  // Takes memory from the device, which holds less until the handle is released.
  virtual HandleId create_handle(size_t bytes) = 0;
  // Gives the memory back to the device. Requires: the handle is not mapped.
  virtual void release_handle(HandleId handle) = 0;

  // Maps the whole handle, which has `bytes`, at `address`. The bytes are not accessible until
  // set_access().
  virtual void map(Address address, size_t bytes, HandleId handle) = 0;
  // Makes every mapped byte of the run accessible. Requires: the run is mapped without a gap.
  virtual void set_access(Address address, size_t bytes) = 0;
  // Unmaps a run. Requires: it consists of whole mappings without a gap.
  virtual void unmap(Address address, size_t bytes) = 0;
  // Maps a mapped handle elsewhere, where set_access() is needed again. Throws nothing.
  virtual MoveResult move(HandleId handle, Address from, Address to, size_t bytes) = 0;

  // Overwrites accessible bytes, for debugging. Spaces without memory do nothing.
  virtual void fill(Address address, size_t bytes, unsigned char value) = 0;
};

}  // namespace tidepool
