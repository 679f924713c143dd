#include "allocator/space/private_host_space.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "allocator/base/check.h"
#include "allocator/base/sizes.h"
#include "allocator/space/host_memory.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

namespace tidepool {

namespace {

// A scattered handle takes two of the kernel's mappings, because it may split a reserved one. An
// eighth of these is left to the rest of the process.
size_t usable_mappings() { return host::kernel_mapping_limit() / 16 * 7; }

size_t system_page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// A failed mremap may have removed the reservation of its target.
void reserve_again(Address to, size_t bytes) {
  void* reserved = mmap(to.pointer(), bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  TIDEPOOL_CHECK(reserved == to.pointer() || errno == EEXIST,
                 "the reservation of %zu bytes at %zx is lost: errno %d", bytes, to.value, errno);
  if (reserved != MAP_FAILED && reserved != to.pointer()) munmap(reserved, bytes);
}

}  // namespace

PrivateHostSpace::PrivateHostSpace() : PrivateHostSpace(std::max(kGranularity, system_page())) {}

PrivateHostSpace::PrivateHostSpace(size_t granularity)
    : LedgerSpace(granularity, usable_mappings()) {
  TIDEPOOL_CHECK(is_power_of_two(granularity) && granularity % system_page() == 0,
                 "granularity %zu is not a power of two of whole pages", granularity);
}

Address PrivateHostSpace::reserve(size_t bytes) {
  const MutexLock lock(mutex_);
  ledger_.check_size("reserve", bytes);
  // The range is aligned to huge pages, so that the kernel moves whole page tables, not single
  // entries.
  Address start = host::reserve(bytes, std::max(granularity(), 2 * kMiB));
  ledger_.add_range(start, bytes);
  return start;
}

void PrivateHostSpace::release_range(Address start, size_t bytes) {
  const MutexLock lock(mutex_);
  ledger_.check_release_range(start, bytes);
  host::unreserve(start, bytes);
  ledger_.release_range(start);
}

void PrivateHostSpace::set_access(Address address, size_t bytes) {
  const MutexLock lock(mutex_);
  ledger_.check_set_access(address, bytes);
  if (mprotect(address.pointer(), bytes, PROT_READ | PROT_WRITE) != 0) {
    host::throw_errno("mprotect", address, bytes);
  }
  ledger_.set_access(address, bytes);
}

void PrivateHostSpace::unmap(Address address, size_t bytes) {
  const MutexLock lock(mutex_);
  ledger_.check_unmap(address, bytes);
  // Access goes first: it is the call that can fail, and must fail before anything is lost.
  if (mprotect(address.pointer(), bytes, PROT_NONE) != 0) {
    host::throw_errno("mprotect", address, bytes);
  }
  if (madvise(address.pointer(), bytes, MADV_DONTNEED) != 0) {
    int error = errno;
    mprotect(address.pointer(), bytes, PROT_READ | PROT_WRITE);
    errno = error;
    host::throw_errno("madvise", address, bytes);
  }
  ledger_.unmap(address, bytes);
}

MoveResult PrivateHostSpace::move(HandleId handle, Address from, Address to, size_t bytes) try {
  const MutexLock lock(mutex_);
  ledger_.check_move(handle, from, to, bytes);
  void* moved = mremap(from.pointer(), bytes, bytes,
                       MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to.pointer());
  if (moved == MAP_FAILED) {
    int error = errno;
    reserve_again(to, bytes);
    // ENOMEM says that the limit on mappings is reached. Otherwise the kernel cannot move at all,
    // or not this piece, which spans several of its mappings: then the pages are dropped at the old
    // place and fault in at the new one.
    if (error == ENOMEM) return MoveResult::kStayed;
    if (madvise(from.pointer(), bytes, MADV_DONTNEED) != 0) return MoveResult::kStayed;
  }
  // If this fails, the empty old addresses stay accessible for now: they hold no pages, and are
  // closed or opened again by the next call on them.
  (void)mprotect(from.pointer(), bytes, PROT_NONE);
  ledger_.move(handle, from, to);
  return MoveResult::kMoved;
} catch (const DeviceError&) {
  return MoveResult::kStayed;
}

void PrivateHostSpace::fill(Address address, size_t bytes, unsigned char value) {
  std::memset(address.pointer(), value, bytes);
}

}  // namespace tidepool
