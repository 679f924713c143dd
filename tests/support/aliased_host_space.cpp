#include "tests/support/aliased_host_space.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "allocator/base/check.h"
#include "allocator/space/host_memory.h"

namespace tidepool {

AliasedHostSpace::AliasedHostSpace(size_t granularity)
    : LedgerSpace(granularity, host::kernel_mapping_limit() / 16 * 7),
      file_(memfd_create("tidepool", MFD_CLOEXEC)) {
  if (file_ < 0) host::throw_errno("memfd_create", {}, 0);
}

AliasedHostSpace::~AliasedHostSpace() { close(file_); }

Address AliasedHostSpace::reserve(size_t bytes) {
  std::lock_guard lock(mutex_);
  ledger_.check_size("reserve", bytes);
  Address start = host::reserve(bytes, granularity());
  ledger_.add_range(start, bytes);
  return start;
}

void AliasedHostSpace::release_range(Address start, size_t bytes) {
  std::lock_guard lock(mutex_);
  ledger_.check_release_range(start, bytes);
  host::unreserve(start, bytes);
  ledger_.release_range(start);
}

HandleId AliasedHostSpace::create_handle(size_t bytes) {
  std::lock_guard lock(mutex_);
  ledger_.check_size("create_handle", bytes);
  Piece piece{file_bytes_, bytes};
  auto reusable = free_offsets_by_size_.find(bytes);
  if (reusable != free_offsets_by_size_.end()) {
    piece.offset = reusable->second;
    free_offsets_by_size_.erase(reusable);
  } else {
    if (ftruncate(file_, static_cast<off_t>(file_bytes_ + bytes)) != 0) {
      host::throw_errno("ftruncate", {}, bytes);
    }
    file_bytes_ += bytes;
  }
  HandleId handle = ledger_.create_handle(bytes);
  pieces_.emplace(static_cast<uint64_t>(handle), piece);
  return handle;
}

void AliasedHostSpace::release_handle(HandleId handle) {
  std::lock_guard lock(mutex_);
  ledger_.check_release_handle(handle);
  Piece piece = pieces_.at(static_cast<uint64_t>(handle));
  if (fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(piece.offset),
                static_cast<off_t>(piece.bytes)) != 0) {
    host::throw_errno("fallocate", {}, piece.bytes);
  }
  pieces_.erase(static_cast<uint64_t>(handle));
  free_offsets_by_size_.emplace(piece.bytes, piece.offset);
  ledger_.release_handle(handle);
}

void AliasedHostSpace::map_locked(Address address, size_t bytes, HandleId handle) {
  ledger_.check_map(address, bytes, handle);
  size_t offset = pieces_.at(static_cast<uint64_t>(handle)).offset;
  void* mapped = mmap(address.pointer(), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file_,
                      static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) host::throw_errno("mmap", address, bytes);
  ledger_.map(address, handle);
}

void AliasedHostSpace::unmap_locked(Address address, size_t bytes) {
  ledger_.check_unmap(address, bytes);
  // Mapped over rather than unmapped: the reservation stays ours.
  void* mapped = mmap(address.pointer(), bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (mapped == MAP_FAILED) host::throw_errno("mmap", address, bytes);
  ledger_.unmap(address, bytes);
}

void AliasedHostSpace::map(Address address, size_t bytes, HandleId handle) {
  std::lock_guard lock(mutex_);
  map_locked(address, bytes, handle);
}

void AliasedHostSpace::set_access(Address address, size_t bytes) {
  std::lock_guard lock(mutex_);
  ledger_.check_set_access(address, bytes);
  if (mprotect(address.pointer(), bytes, PROT_READ | PROT_WRITE) != 0) {
    host::throw_errno("mprotect", address, bytes);
  }
  ledger_.set_access(address, bytes);
}

void AliasedHostSpace::unmap(Address address, size_t bytes) {
  std::lock_guard lock(mutex_);
  unmap_locked(address, bytes);
}

MoveResult AliasedHostSpace::move(HandleId handle, Address from, Address to, size_t bytes) {
  std::lock_guard lock(mutex_);
  MoveResult on_failure = MoveResult::kStayed;
  try {
    ledger_.check_move(handle, from, to, bytes);
    unmap_locked(from, bytes);
    on_failure = MoveResult::kUnmapped;
    map_locked(to, bytes, handle);
    return MoveResult::kMoved;
  } catch (const DeviceError&) {
    return on_failure;
  }
}

void AliasedHostSpace::fill(Address address, size_t bytes, unsigned char value) {
  std::memset(address.pointer(), value, bytes);
}

void AliasedHostSpace::check_invariants() const {
  std::lock_guard lock(mutex_);
  ledger_.check_invariants();
  std::map<size_t, size_t> by_offset;
  for (const auto& [handle, piece] : pieces_) by_offset.emplace(piece.offset, piece.bytes);
  TIDEPOOL_CHECK(by_offset.size() == pieces_.size(), "(3) %zu pieces", pieces_.size());
  size_t end = 0;
  for (const auto& [offset, bytes] : by_offset) {
    TIDEPOOL_CHECK(offset >= end, "(3) the piece at %zu overlaps its neighbour", offset);
    end = offset + bytes;
  }
}

}  // namespace tidepool
