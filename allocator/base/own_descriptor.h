// OwnDescriptor: a descriptor that Tidepool keeps open in a user's process. Jobs close descriptors
// that are not theirs (daemons close all that there are), and then get the same numbers for files
// of their own. So ours lies above those that programs expect, and whoever uses it asks each time
// whether it still leads to the same file.
// Owns the descriptor. Not thread safe to change; get() is. A thread of the job's that closes it
// between get() and the use that follows is not noticed.
#pragma once

#include <sys/types.h>

#include <utility>

namespace tidepool {

class OwnDescriptor {
 public:
  OwnDescriptor() = default;
  // Takes the descriptor over; a negative number stands for none.
  explicit OwnDescriptor(int descriptor);
  OwnDescriptor(OwnDescriptor&& other) noexcept { swap(other); }
  OwnDescriptor& operator=(OwnDescriptor&& other) noexcept {
    OwnDescriptor(std::move(other)).swap(*this);
    return *this;
  }
  ~OwnDescriptor() { close(); }

  // Returns the descriptor. -1, and errno is EBADF: there is none, or the job has closed it.
  int get() const;
  // Closes the descriptor, unless the job has done so. False, and errno says why: what was written
  // may be incomplete.
  bool close();
  // Leaves the descriptor open for good.
  void release() { descriptor_ = -1; }

 private:
  void swap(OwnDescriptor& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(device_, other.device_);
    std::swap(inode_, other.inode_);
    std::swap(pin_, other.pin_);
  }

  int descriptor_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  void* pin_ = nullptr;  // a mapping of the file, so that no other one gets its number
};

}  // namespace tidepool
