#include "allocator/base/own_descriptor.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace tidepool {
namespace {

// From here on the job does not expect its descriptors: it may close 0, 1 or 2 to get them again.
constexpr int kLeastDescriptor = 64;
constexpr size_t kPinBytes = 1;  // of a page, which nobody touches

}  // namespace

OwnDescriptor::OwnDescriptor(int descriptor) : descriptor_(descriptor) {
  if (descriptor < 0) return;
  const int above = ::fcntl(descriptor, F_DUPFD_CLOEXEC, kLeastDescriptor);
  if (above >= 0) {
    ::close(descriptor);
    descriptor_ = above;
  }
  struct stat file{};
  if (::fstat(descriptor_, &file) != 0) return;
  device_ = file.st_dev;
  inode_ = file.st_ino;
  // Only a file without a name loses its number with its last descriptor.
  if (!S_ISREG(file.st_mode) || file.st_nlink > 0) return;
  void* const pin = ::mmap(nullptr, kPinBytes, PROT_NONE, MAP_SHARED, descriptor_, 0);
  if (pin != MAP_FAILED) pin_ = pin;
}

int OwnDescriptor::get() const {
  struct stat file{};
  const bool same = descriptor_ >= 0 && ::fstat(descriptor_, &file) == 0 &&
                    file.st_dev == device_ && file.st_ino == inode_;
  if (!same) errno = EBADF;
  return same ? descriptor_ : -1;
}

bool OwnDescriptor::close() {
  const int descriptor = get();
  const bool closed = descriptor < 0 ? descriptor_ < 0 : ::close(descriptor) == 0;
  if (pin_ != nullptr) ::munmap(std::exchange(pin_, nullptr), kPinBytes);
  descriptor_ = -1;
  return closed;
}

}  // namespace tidepool
