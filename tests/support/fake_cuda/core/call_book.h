// CallBook: counts the calls of each kind, lets chosen ones fail, keeps the host's virtual time.
// The time may be read without the machine's lock.
// Owns its numbers only. Not thread safe: the machine's lock is held.
// Invariants: (1) a failed call counts as a call; (2) time never goes back.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/fake_cuda/core/error.h"

namespace tidepool::fake_cuda {

// What settings and tests call the kinds: the names of kCallNames, in the same order.
enum class Call : uint8_t {
  kMalloc,
  kFree,
  kReserve,
  kCreate,
  kMap,
  kAccess,
  kUnmap,
  kRelease,
  kHostAlloc,
  kEventCreate,
  kEventRecord,
  kEventQuery,
  kStreamCreate,
  kStreamWait,
  kStreamQuery,
  kSynchronize,
  kCopy,
  kFill,
  kLaunch,
  kCapture,
  kGraphLaunch,
  kOther,
  kCount,
};
constexpr size_t kCalls = static_cast<size_t>(Call::kCount);
constexpr std::array<const char*, kCalls> kCallNames = {
    "malloc",        "free",        "reserve",      "create",       "map",          "access",
    "unmap",         "release",     "host_alloc",   "event_create", "event_record", "event_query",
    "stream_create", "stream_wait", "stream_query", "synchronize",  "copy",         "fill",
    "launch",        "capture",     "graph_launch", "other"};

std::optional<Call> call_of(std::string_view name);
const char* name_of(Call call);

// The calls first, first + 1, … of a kind, `count` of them, fail with `error`.
struct FailureRule {
  Call call;
  uint64_t first = 1;
  uint64_t count = 1;
  Error error = Error::kUnknown;
};

// What CUDA most plausibly answers when a call of this kind fails.
Error usual_error(Call call);

// "map:3,event_record:1x2=700": the third map, and with error 700 the first two event records.
// Throws: std::invalid_argument naming what is wrong.
std::vector<FailureRule> parse_failures(std::string_view text);

struct Price {
  Call call;
  uint64_t host_ns = 0;    // the host is in the call
  uint64_t device_ns = 0;  // the stream is busy with what the call enqueued
};

// "map:2000,launch:500+80000": a map takes the host 2 µs, a launch 0.5 µs and its stream 80 µs.
// Throws: std::invalid_argument.
std::vector<Price> parse_prices(std::string_view text);

// How much is done in a virtual nanosecond; 0: it takes no time.
struct Speeds {
  uint64_t link_bytes = 0;    // copied between host and device, in each direction
  uint64_t memory_bytes = 0;  // copied or filled within a device
  uint64_t threads = 0;       // of a kernel
};

// "link:25,memory:1000,threads:200": what is not named stays 0. Throws: std::invalid_argument.
Speeds parse_speeds(std::string_view text);

// The time that `amount` takes.
inline uint64_t time_ns(uint64_t amount, uint64_t speed) { return speed == 0 ? 0 : amount / speed; }

class CallBook {
 public:
  // Counts a call and lets time pass. Returns the error it must fail with, or kSuccess.
  Error begin(Call call);

  // The n-th call of a kind from now on, and count - 1 after it, will fail. n counts from 1.
  void fail(FailureRule rule);
  void clear_failures() { rules_.clear(); }
  void set_price(Price price);

  uint64_t calls(Call call) const { return counts_[static_cast<size_t>(call)]; }
  uint64_t failures(Call call) const { return failures_[static_cast<size_t>(call)]; }
  uint64_t device_price_ns(Call call) const { return prices_[static_cast<size_t>(call)].device_ns; }

  uint64_t host_time_ns() const { return host_time_ns_.load(std::memory_order_relaxed); }
  // What part of it the host has spent waiting for devices.
  uint64_t host_waited_ns() const { return host_waited_ns_; }
  void pass(uint64_t ns) { host_time_ns_.fetch_add(ns, std::memory_order_relaxed); }
  void wait_until(uint64_t time_ns) {
    const uint64_t now_ns = host_time_ns();
    if (time_ns <= now_ns) return;
    host_waited_ns_ += time_ns - now_ns;
    pass(time_ns - now_ns);
  }

 private:
  std::array<uint64_t, kCalls> counts_{};
  std::array<uint64_t, kCalls> failures_{};
  std::array<Price, kCalls> prices_{};
  std::vector<FailureRule> rules_;  // `first` counts all calls since the beginning
  std::atomic<uint64_t> host_time_ns_ = 0;
  uint64_t host_waited_ns_ = 0;
};

}  // namespace tidepool::fake_cuda
