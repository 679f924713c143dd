// StopToken: tells simulations to end, once a stop is requested, or once they have taken long
// enough by a clock that their caller gives. request_stop() and stop_requested() are thread safe;
// all else is for the thread that simulates.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

namespace tidepool::remat {

class StopToken {
 public:
  using Clock = std::function<uint64_t()>;  // returns nanoseconds

  void request_stop() { requested_.store(true, std::memory_order_relaxed); }
  bool stop_requested() const { return requested_.load(std::memory_order_relaxed); }

  // Simulations end `most_ns` from now by `clock`.
  void set_limit(Clock clock, uint64_t most_ns) {
    clock_ = std::move(clock);
    end_ns_ = clock_() + most_ns;
  }

  // Whether simulations have to end. Stays true once it was. Reads the clock once in kPeriod calls.
  bool should_stop() {
    if (late_ || stop_requested()) return true;
    if (!clock_ || ++calls_ % kPeriod != 0) return false;
    late_ = clock_() >= end_ns_;
    return late_;
  }

 private:
  static constexpr uint64_t kPeriod = 64;  // events of a simulation: a fraction of a millisecond

  std::atomic<bool> requested_{false};
  Clock clock_;
  uint64_t end_ns_ = 0;
  uint64_t calls_ = 0;
  bool late_ = false;
};

}  // namespace tidepool::remat
