#include "allocator/blocks/block_table.h"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>

#include "allocator/base/sizes.h"
#include "allocator/space/host_memory.h"

namespace tidepool {

BlockTable::BlockTable(size_t range_bytes, size_t unit)
    : table_bytes_(range_bytes / unit * sizeof(BlockId)),
      unit_shift_(static_cast<unsigned>(std::countr_zero(unit))) {
  void* memory = mmap(nullptr, table_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) host::throw_errno("mmap of the block table", {}, table_bytes_);
  entries_ = static_cast<BlockId*>(memory);
}

BlockTable::~BlockTable() { munmap(entries_, table_bytes_); }

void BlockTable::drop(size_t offset, size_t bytes) {
  size_t system_page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t first = round_up((offset >> unit_shift_) * sizeof(BlockId), system_page);
  size_t last = round_down(((offset + bytes) >> unit_shift_) * sizeof(BlockId), system_page);
  if (first >= last) return;
  // A failure leaves stale entries behind, which readers expect anyway.
  (void)madvise(reinterpret_cast<char*>(entries_) + first, last - first, MADV_DONTNEED);
}

}  // namespace tidepool
