// The host's clock, in place of the C library's in jobs on a machine in virtual time: the monotonic
// clock goes on from where it was as the machine's host time does, and a look at it takes time, so
// that who waits for time to pass does not wait for ever. The other clocks stay.
#include <dlfcn.h>

#include <cstdint>
#include <ctime>

#include "tests/support/fake_cuda/core/export.h"
#include "tests/support/fake_cuda/core/machine.h"

namespace tidepool::fake_cuda {
namespace {

constexpr uint64_t kLookNs = 20;
constexpr uint64_t kSecondNs = 1'000'000'000;

int ask_system(clockid_t clock, timespec* time) {
  using Function = int (*)(clockid_t, timespec*);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "clock_gettime"));
  return real(clock, time);
}

uint64_t system_now_ns() {
  timespec time{};
  ask_system(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * kSecondNs + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

FAKE_CUDA_API int clock_gettime(clockid_t clock, timespec* time) noexcept {
  Machine* const there = clock == CLOCK_MONOTONIC ? made_machine() : nullptr;
  if (!there) return ask_system(clock, time);
  static const bool is_timed = there->settings.is_timed;
  if (!is_timed) return ask_system(clock, time);
  static const uint64_t start_ns = system_now_ns() - there->book.host_time_ns();
  there->book.pass(kLookNs);
  const uint64_t now_ns = start_ns + there->book.host_time_ns();
  time->tv_sec = static_cast<time_t>(now_ns / kSecondNs);
  time->tv_nsec = static_cast<long>(now_ns % kSecondNs);
  return 0;
}

}  // namespace tidepool::fake_cuda
