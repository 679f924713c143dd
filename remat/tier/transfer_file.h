// TransferFile: the interface to a file that is read and written at offsets, as pread() and
// pwrite() do: both return how many bytes they have carried, which may be fewer than were asked
// for, or -1 with errno. Implementations are thread safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace tidepool::remat {

class TransferFile {
 public:
  virtual ~TransferFile() = default;
  virtual ssize_t write_at(uint64_t offset, const char* from, size_t bytes) = 0;
  virtual ssize_t read_at(uint64_t offset, char* to, size_t bytes) = 0;
  // Called once on each thread that does nothing but transfers, before its first one.
  virtual void begin_thread() {}
};

}  // namespace tidepool::remat
