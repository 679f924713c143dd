// SideStreamCopies: a CopyEngine over two streams of its own, one for each direction, so that
// copies in both directions run beside each other and beside the job's work.
// Owns the streams, each made at the first copy in its direction; the driver must outlive it.
// Thread safe.
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "allocator/streams/copy_engine.h"
#include "cuda/events.h"

namespace tidepool::device {

class SideStreamCopies final : public CopyEngine {
 public:
  SideStreamCopies(Driver& driver, std::shared_ptr<EventPool> events)
      : driver_(driver), events_(std::move(events)) {}
  ~SideStreamCopies() override;
  SideStreamCopies(const SideStreamCopies&) = delete;
  SideStreamCopies& operator=(const SideStreamCopies&) = delete;

  // These copy from and to host memory. If that is not pinned, a copy waits for the host.
  std::shared_ptr<Fence> copy_to_host(void* to, const void* from, size_t bytes,
                                      Fence* after) override;
  std::shared_ptr<Fence> copy_to_device(void* to, const void* from, size_t bytes,
                                        Fence* after) override;

 private:
  enum Direction : size_t { kToHost, kToDevice, kDirections };
  driver::Stream stream(Direction direction);

  Driver& driver_;
  std::shared_ptr<EventPool> events_;
  std::mutex mutex_;  // keeps a copy and the recording of its fence together
  std::array<driver::Stream, kDirections> streams_{};
};

}  // namespace tidepool::device
