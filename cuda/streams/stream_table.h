// StreamTable: the numbers by which the allocator knows a device's streams. The legacy default
// stream has number 0. The others are numbered as they are met, and keep their number for ever.
// CUDA's name for the calling thread's default stream stands for another stream on each thread, so
// that callers have to look up which one it is.
// Owns nothing of the driver's. Thread safe: looking up takes no lock.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "allocator/streams/stream_order.h"
#include "cuda/driver/driver_types.h"

namespace tidepool::device {

class StreamTable {
 public:
  StreamTable();
  ~StreamTable();
  StreamTable(const StreamTable&) = delete;
  StreamTable& operator=(const StreamTable&) = delete;

  // Returns the stream's number, which is a new one for a stream never seen. Aborts beyond 65,536
  // streams.
  StreamId id_of(driver::Stream stream) {
    if (is_default(stream)) return StreamId::kDefault;
    const Slots* slots = slots_.load(std::memory_order_acquire);
    StreamId id = slots->find(stream);
    return id != StreamId::kDefault ? id : add(stream);
  }
  // The stream that has the number, which id_of() returned.
  driver::Stream stream_of(StreamId id) const;
  size_t count() const;

 private:
  // Replaces the driver's name for the legacy default stream by null, which is another name for it.
  static bool is_default(driver::Stream stream) { return reinterpret_cast<uintptr_t>(stream) <= 1; }
  // A hash table with open addressing. A slot is filled once, and a table is at most half full.
  struct Slots {
    explicit Slots(size_t size) : mask(size - 1), keys(size), ids(size) {}
    StreamId find(driver::Stream stream) const;
    void insert(driver::Stream stream, StreamId id);
    size_t home(driver::Stream stream) const {
      return (reinterpret_cast<uintptr_t>(stream) * 0x9E3779B97F4A7C15u >> 32) & mask;
    }
    size_t mask;
    std::vector<std::atomic<driver::Stream>> keys;
    std::vector<std::atomic<StreamId>> ids;
  };
  StreamId add(driver::Stream stream);

  std::atomic<Slots*> slots_;
  mutable std::mutex mutex_;
  std::vector<driver::Stream> streams_{nullptr};     // by number
  std::vector<std::unique_ptr<Slots>> generations_;  // readers may still be in the older ones
};

}  // namespace tidepool::device
