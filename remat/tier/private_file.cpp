#include "remat/tier/private_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "fmt/format.h"

namespace tidepool::remat {
namespace {

// Makes a file whose name is gone at once. -1, and errno says why not.
int open_unlinked(const std::string& folder) {
  std::string name = folder + "/.tidepool-XXXXXX";
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor >= 0) ::unlink(name.c_str());
  return descriptor;
}

}  // namespace

int PrivateFile::open(const std::string& folder) {
  struct statfs system = {};
  if (::statfs(folder.c_str(), &system) != 0) {
    throw std::invalid_argument(fmt::format("offload: {}: {}", folder, std::strerror(errno)));
  }
  if (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC) {
    throw std::invalid_argument(fmt::format(
        "offload: {} lies in memory (tmpfs), which contents are to leave; expected a folder on a "
        "disk",
        folder));
  }
  int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0) descriptor = open_unlinked(folder);  // not all file systems know the other
  if (descriptor < 0) {
    throw std::invalid_argument(fmt::format("offload: no file without a name can be made in {}: {}",
                                            folder, std::strerror(errno)));
  }
  // Where direct transfers are not possible, they pass through the cache.
  (void)::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_DIRECT);
  return descriptor;
}

ssize_t PrivateFile::write_at(uint64_t offset, const char* from, size_t bytes) {
  const auto write = [&] {
    return ::pwrite(descriptor_.get(), from, bytes, static_cast<off_t>(offset));
  };
  const ssize_t done = write();
  return done < 0 && errno == EINVAL && end_direct() ? write() : done;
}

ssize_t PrivateFile::read_at(uint64_t offset, char* to, size_t bytes) {
  const auto read = [&] {
    return ::pread(descriptor_.get(), to, bytes, static_cast<off_t>(offset));
  };
  const ssize_t done = read();
  return done < 0 && errno == EINVAL && end_direct() ? read() : done;
}

void PrivateFile::begin_thread() {
  const int descriptor = descriptor_.get();
  if (descriptor <= 0) return;
  const auto number = static_cast<unsigned>(descriptor);
  if (::close_range(number + 1, ~0u, CLOSE_RANGE_UNSHARE) == 0) ::close_range(0, number - 1, 0);
}

// Some file systems take the flag and refuse the transfers, or those of our pages' size.
bool PrivateFile::end_direct() {
  const int descriptor = descriptor_.get();
  const int flags = ::fcntl(descriptor, F_GETFL);
  return flags >= 0 && ::fcntl(descriptor, F_SETFL, flags & ~O_DIRECT) == 0;
}

}  // namespace tidepool::remat
