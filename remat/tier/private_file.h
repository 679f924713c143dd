// PrivateFile: a file of this process's own on a local disk. It has no name (O_TMPFILE), so that
// nothing is left of it however the process ends, and nobody else can open it. Transfers are direct
// (O_DIRECT) where the file system has that, so that they take no memory for its cache.
#pragma once

#include <string>

#include "allocator/base/own_descriptor.h"
#include "remat/tier/transfer_file.h"

namespace tidepool::remat {

class PrivateFile final : public TransferFile {
 public:
  // Throws: std::invalid_argument naming the folder, if there is none, no file can be made in it,
  // or it lies in memory.
  explicit PrivateFile(const std::string& folder) : descriptor_(open(folder)) {}
  PrivateFile(const PrivateFile&) = delete;
  PrivateFile& operator=(const PrivateFile&) = delete;

  ssize_t write_at(uint64_t offset, const char* from, size_t bytes) override;
  ssize_t read_at(uint64_t offset, char* to, size_t bytes) override;
  // Gives the thread a table of descriptors of its own, which has nothing but the file: a job that
  // closes all descriptors does not reach into it. Without such tables (before Linux 5.9) transfers
  // fail then.
  void begin_thread() override;

 private:
  static int open(const std::string& folder);
  // Has transfers pass through the cache from now on. False, with errno: that cannot be.
  bool end_direct();

  const OwnDescriptor descriptor_;
};

}  // namespace tidepool::remat
