#include "cuda/side_stream_copies.h"

namespace tidepool::device {

SideStreamCopies::~SideStreamCopies() {
  // The driver lets what was given to a stream finish before the stream is gone.
  for (driver::Stream stream : streams_) {
    if (stream != nullptr) (void)driver_.call().cuStreamDestroy(stream);
  }
}

driver::Stream SideStreamCopies::stream(Direction direction) {
  if (streams_[direction] == nullptr) {
    driver_.check(driver_.call().cuStreamCreate(&streams_[direction], driver::kStreamNonBlocking),
                  "cuStreamCreate");
  }
  return streams_[direction];
}

std::shared_ptr<Fence> SideStreamCopies::copy_to_host(void* to, const void* from, size_t bytes,
                                                      Fence* after) {
  std::lock_guard lock(mutex_);
  Driver::Scope scope(driver_);
  driver::Stream side = stream(kToHost);
  if (after != nullptr) events_->wait(side, *after);
  driver_.check(
      driver_.call().cuMemcpyDtoHAsync(to, reinterpret_cast<uintptr_t>(from), bytes, side),
      "cuMemcpyDtoHAsync");
  return events_->record(side);
}

std::shared_ptr<Fence> SideStreamCopies::copy_to_device(void* to, const void* from, size_t bytes,
                                                        Fence* after) {
  std::lock_guard lock(mutex_);
  Driver::Scope scope(driver_);
  driver::Stream side = stream(kToDevice);
  if (after != nullptr) events_->wait(side, *after);
  driver_.check(
      driver_.call().cuMemcpyHtoDAsync(reinterpret_cast<uintptr_t>(to), from, bytes, side),
      "cuMemcpyHtoDAsync");
  return events_->record(side);
}

}  // namespace tidepool::device
