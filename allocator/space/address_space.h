// AddressSpace: the seam to a device's memory: ranges of addresses, handles (physical memory), and
// mappings of handles into ranges. Shaped after CUDA's virtual memory calls, so that a GPU and
// host memory fit alike.
// Owns nothing that callers see: who reserves or creates also releases. Thread safe.
// Rules, which every implementation keeps: (1) addresses and sizes are multiples of granularity();
// (2) a handle is mapped at one address at most, and only where nothing is mapped; (3) mapped
// bytes may be touched only after set_access; (4) a call that breaks a rule throws DeviceError,
// and one that throws it has changed nothing. The contents of freshly mapped or moved memory are
// undefined.
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

// Physical memory of the device, of the size it was created with.
enum class HandleId : uint64_t { kNone = 0 };

enum class MoveResult : uint8_t {
  kMoved,     // mapped at `to`, `from` is empty
  kStayed,    // as before the call
  kUnmapped,  // taken from `from`, but `to` refused it: mapped nowhere
};

class AddressSpace {
 public:
  virtual ~AddressSpace() = default;

  // Sizes of handles and addresses of mappings are multiples of this power of two.
  virtual size_t granularity() const = 0;
  // How many handles may be mapped at once, at places that do not join.
  virtual size_t mapping_limit() const = 0;
  // False: addresses come with their memory. What reserve() returns is held from the device until
  // release_range(), handles are mere numbers, and move() always answers kStayed.
  virtual bool has_virtual_memory() const { return true; }

  // Reserves addresses without memory, aligned to granularity. Throws: DeviceError, as all below.
  virtual Address reserve(size_t bytes) = 0;
  // Requires: nothing is mapped in the range, which is one that reserve() returned.
  virtual void release_range(Address start, size_t bytes) = 0;

  // How much the device could give now, as far as it says. Throws nothing.
  virtual size_t available_bytes() { return SIZE_MAX; }

  // From creation to release a handle counts as memory held from the device.
  virtual HandleId create_handle(size_t bytes) = 0;
  // Requires: not mapped.
  virtual void release_handle(HandleId handle) = 0;

  // Maps the whole handle (of `bytes`) at `address`; not accessible until set_access.
  virtual void map(Address address, size_t bytes, HandleId handle) = 0;
  // Makes every mapped byte of the run accessible. Requires: the run is mapped without a gap.
  virtual void set_access(Address address, size_t bytes) = 0;
  // Requires: the run consists of whole mappings without a gap.
  virtual void unmap(Address address, size_t bytes) = 0;
  // Maps a mapped handle elsewhere; set_access is due again. Never throws: see MoveResult.
  virtual MoveResult move(HandleId handle, Address from, Address to, size_t bytes) = 0;

  // Overwrites accessible bytes (debugging: poison). Spaces without memory do nothing.
  virtual void fill(Address address, size_t bytes, unsigned char value) = 0;
};

}  // namespace tidepool
