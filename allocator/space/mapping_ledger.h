// MappingLedger: the books of an AddressSpace: which ranges, handles and mappings exist. It
// enforces the rules of address_space.h: for a call that breaks one it throws DeviceError before
// anything changes.
// Owns no memory and makes no system call. Not thread safe: the space that holds it locks.
// Invariants: (1) ranges do not overlap; (2) every mapping lies inside one range, overlaps no
// other, and belongs to an existing handle that knows its address.
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "allocator/space/address_space.h"

namespace tidepool {

class MappingLedger {
 public:
  MappingLedger(size_t granularity, size_t mapping_limit)
      : granularity_(granularity), mapping_limit_(mapping_limit) {}

  struct Mapping {
    size_t bytes = 0;
    HandleId handle = HandleId::kNone;
    bool accessible = false;
  };

  size_t granularity() const { return granularity_; }
  size_t mapping_limit() const { return mapping_limit_; }

  // These functions come in pairs: check_x() throws DeviceError if the call x() would break a rule,
  // and x() enters that the call was made.
  void check_size(const char* what, size_t bytes) const;
  void add_range(Address start, size_t bytes);
  void check_release_range(Address start, size_t bytes) const;
  void release_range(Address start);

  HandleId create_handle(size_t bytes);
  void check_release_handle(HandleId handle) const;
  void release_handle(HandleId handle);

  void check_map(Address address, size_t bytes, HandleId handle) const;
  void map(Address address, HandleId handle);
  void check_set_access(Address address, size_t bytes) const;
  void set_access(Address address, size_t bytes);
  void check_unmap(Address address, size_t bytes) const;
  void unmap(Address address, size_t bytes);
  void check_move(HandleId handle, Address from, Address to, size_t bytes) const;
  void move(HandleId handle, Address from, Address to);

  bool accessible(Address address, size_t bytes) const;
  size_t handle_bytes_total() const { return handle_bytes_total_; }
  size_t mapping_count() const { return mappings_.size(); }
  size_t handle_count() const { return handles_.size(); }
  // The longest runs of accessible bytes, in address order.
  std::vector<std::pair<Address, size_t>> accessible_runs() const;
  // The mapping that contains `address`, with its start. Throws: DeviceError if there is none.
  std::pair<Address, Mapping> mapping_at(Address address) const;
  void check_invariants() const;

 private:
  struct Handle {
    size_t bytes = 0;
    Address mapped_at;  // null: not mapped
  };
  const Handle& handle_or_throw(HandleId handle) const;
  // Throws unless mappings tile [address, address + bytes) exactly.
  void check_tiled(const char* what, Address address, size_t bytes) const;
  void check_vacant(Address address, size_t bytes) const;

  const size_t granularity_;
  const size_t mapping_limit_;
  std::map<Address, size_t> ranges_;
  std::map<Address, Mapping> mappings_;
  std::unordered_map<uint64_t, Handle> handles_;
  uint64_t next_handle_ = 1;
  size_t handle_bytes_total_ = 0;
};

}  // namespace tidepool
