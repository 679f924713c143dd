// AliasedHostSpace: AddressSpace over one memfd: handles are pieces of the file, mappings alias
// them. Has the GPU's behaviour on a CPU: a handle keeps its contents while it is mapped nowhere,
// and mapped bytes fault until access is set. Shared with forked children: for tests, not for jobs.
// Owns the file and the ranges it reserved until they are released. Thread safe.
// Invariants: those of MappingLedger; (3) pieces of live handles do not overlap in the file.
#pragma once

#include <map>
#include <mutex>
#include <unordered_map>

#include "allocator/space/ledger_space.h"

namespace tidepool {

class AliasedHostSpace final : public LedgerSpace {
 public:
  // Throws: DeviceError if the system gives no memfd.
  explicit AliasedHostSpace(size_t granularity = size_t{64} << 10);
  ~AliasedHostSpace() override;
  AliasedHostSpace(const AliasedHostSpace&) = delete;
  AliasedHostSpace& operator=(const AliasedHostSpace&) = delete;

  Address reserve(size_t bytes) override;
  void release_range(Address start, size_t bytes) override;
  HandleId create_handle(size_t bytes) override;
  void release_handle(HandleId handle) override;
  void map(Address address, size_t bytes, HandleId handle) override;
  void set_access(Address address, size_t bytes) override;
  void unmap(Address address, size_t bytes) override;
  MoveResult move(HandleId handle, Address from, Address to, size_t bytes) override;
  void fill(Address address, size_t bytes, unsigned char value) override;

  void check_invariants() const;

 private:
  struct Piece {
    size_t offset = 0;
    size_t bytes = 0;
  };
  void map_locked(Address address, size_t bytes, HandleId handle);
  void unmap_locked(Address address, size_t bytes);

  int file_ = -1;
  size_t file_bytes_ = 0;
  std::unordered_map<uint64_t, Piece> pieces_;          // of live handles
  std::multimap<size_t, size_t> free_offsets_by_size_;  // pieces of released ones
};

}  // namespace tidepool
