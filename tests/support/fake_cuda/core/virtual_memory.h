// VirtualMemory: the driver's virtual memory calls: reservations, handles, mappings, access.
// Where the driver's documentation leaves a misuse open, this refuses it: a mapping takes its whole
// handle, an access range or an unmapped range consists of whole mappings without a gap.
// Owns reservations, handles and mappings. Not thread safe: the machine's lock is held.
// Invariants: (1) reservations do not overlap, nor do mappings, which lie in one reservation each;
// (2) a handle lives while it has references: one of its creation, one of each retain and import,
// one of each mapping; (3) a call that throws has changed nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tests/support/fake_cuda/core/physical_memory.h"
#include "tests/support/fake_cuda/core/settings.h"

namespace tidepool::fake_cuda {

enum class Handle : uint64_t {};

enum class Access : uint8_t { kNone = 0, kRead = 1, kReadWrite = 3 };

class VirtualMemory {
 public:
  // Requires: both outlive it.
  VirtualMemory(std::vector<std::unique_ptr<PhysicalMemory>>& devices, const Settings& settings)
      : devices_(devices), settings_(settings) {}
  ~VirtualMemory();
  VirtualMemory(const VirtualMemory&) = delete;
  VirtualMemory& operator=(const VirtualMemory&) = delete;

  // All throw Refusal.
  uintptr_t reserve(size_t bytes, size_t alignment, uint64_t flags);
  void release_range(uintptr_t start, size_t bytes);
  Handle create(size_t bytes, int device, uint64_t flags);
  void release(Handle handle);
  Handle retain(uintptr_t address);
  void map(uintptr_t address, size_t bytes, size_t offset, Handle handle, uint64_t flags);
  void set_access(uintptr_t address, size_t bytes, int device, Access access);
  Access access(uintptr_t address, int device) const;
  void unmap(uintptr_t address, size_t bytes);

  // A file by which another process (or this one) gets hold of the same memory; the caller's.
  int export_file(Handle handle);
  Handle import_file(int file);

  struct Place {
    int device = 0;
    uintptr_t start = 0;
    size_t bytes = 0;
    bool can_read = false;
    bool can_write = false;
  };
  // The mapping at an address, with what `device` may do there; kAnyDevice: what some device may.
  static constexpr int kAnyDevice = -1;
  std::optional<Place> find(uintptr_t address, int device = kAnyDevice) const;

  bool is_reserved(uintptr_t address) const;

  // Requires: it lives.
  int device_of(Handle handle) const { return handles_.at(handle).extent.device; }
  bool lives(Handle handle) const { return handles_.contains(handle); }
  size_t reservations() const { return reservations_.size(); }
  size_t handles() const { return handles_.size(); }
  size_t mappings() const { return mappings_.size(); }

 private:
  struct Physical {
    Extent extent;
    bool is_imported = false;
    uint32_t owners = 1;  // creation, retains
    uint32_t mappings = 0;
  };
  struct Mapping {
    size_t bytes;
    Handle handle;
    std::map<int, Access> access;  // by device
  };
  using Mappings = std::map<uintptr_t, Mapping>;

  Physical& physical(Handle handle);
  void drop_if_unused(Handle handle);
  void check_in_one_reservation(uintptr_t address, size_t bytes) const;
  // The mappings that make up a range. Throws if they do not, exactly.
  std::vector<Mappings::iterator> whole_mappings(uintptr_t address, size_t bytes);
  void apply_access(const Mappings::value_type& mapping);

  std::vector<std::unique_ptr<PhysicalMemory>>& devices_;
  const Settings& settings_;
  std::map<uintptr_t, size_t> reservations_;
  std::map<Handle, Physical> handles_;
  Mappings mappings_;
  uint64_t next_handle_ = 1;
};

}  // namespace tidepool::fake_cuda
