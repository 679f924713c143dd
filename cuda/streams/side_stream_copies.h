// SideStreamCopies: a CopyEngine over a device's driver.
// Owns the two streams, each made when it is first needed; driver and table must outlive it. Thread
// safe.
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "allocator/streams/copy_engine.h"
#include "cuda/streams/events.h"
#include "cuda/streams/stream_table.h"

namespace tidepool::device {

class SideStreamCopies final : public CopyEngine {
 public:
  SideStreamCopies(Driver& driver, StreamTable& streams, std::shared_ptr<EventPool> events)
      : driver_(driver), table_(streams), events_(std::move(events)) {}
  // Waits for what was enqueued.
  ~SideStreamCopies() override;
  SideStreamCopies(const SideStreamCopies&) = delete;
  SideStreamCopies& operator=(const SideStreamCopies&) = delete;

  void* allocate_host(size_t bytes) override;
  void free_host(void* address) override;
  StreamId stream(CopyDirection direction) override { return table_.id_of(side(direction)); }
  void order_after(CopyDirection direction, StreamId stream) override;
  void wait(CopyDirection direction, Fence& fence) override;
  void copy(CopyDirection direction, void* to, const void* from, size_t bytes) override;
  std::shared_ptr<Fence> record(CopyDirection direction) override;
  double measure_ns_per_byte(CopyDirection direction, size_t bytes) override;

 private:
  driver::Stream side(CopyDirection direction);

  Driver& driver_;
  StreamTable& table_;
  std::shared_ptr<EventPool> events_;
  std::mutex mutex_;  // guards the streams' being made
  std::array<driver::Stream, 2> streams_{};
};

}  // namespace tidepool::device
