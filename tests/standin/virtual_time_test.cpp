// Virtual time on the stand-in device: what operations take, what they wait for, and what of it the
// host sees.
#include <string>
#include <vector>

#include "tests/standin/driver.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda/control.h"

namespace tidepool::fake_cuda {
namespace {

constexpr size_t kBytes = 10'000;

// A device in virtual time, with memory on it and page-locked memory on the host.
struct Timed : Driver {
  explicit Timed(const char* prices, const char* speeds = "")
      : Driver({.is_timed = true, .prices = parse_prices(prices), .speeds = parse_speeds(speeds)}) {
    REQUIRE(allocate(&memory, 2 * kBytes) == kOk);
    const auto lock = driver_entry<int(void*, size_t, unsigned)>("cuMemHostRegister");
    REQUIRE(lock(on_host.data(), kBytes, 0) == kOk);
  }

  int copy(bool is_out, void* stream, size_t bytes = kBytes) const {
    const auto host = reinterpret_cast<DeviceAddress>(on_host.data());
    return is_out ? copy_async(host, memory, bytes, stream)
                  : copy_async(memory, host, bytes, stream);
  }
  uint64_t done_ns(void* stream) const { return fake_cuda_stream_time_ns(stream); }

  std::vector<char> on_host = std::vector<char>(kBytes);
  DeviceAddress memory = 0;
  void* const first = stream();
  void* const second = stream();
};

TEST_CASE("operations of a stream run one after the other, those of two at the same time") {
  Timed cuda("launch:0+300");
  for (int i = 0; i < 3; ++i) cuda.run_kernel(cuda.first);
  cuda.run_kernel(cuda.second);
  CHECK(cuda.done_ns(cuda.first) == 900);
  CHECK(cuda.done_ns(cuda.second) == 300);
  CHECK(fake_cuda_host_time_ns() == 0);
}

TEST_CASE("an operation does not begin before the host has come to it") {
  Timed cuda("launch:100+30");
  for (int i = 0; i < 3; ++i) cuda.run_kernel(cuda.first);
  CHECK(cuda.done_ns(cuda.first) == 330);
  CHECK(fake_cuda_stream_stalled_ns(cuda.first) == 0);
}

TEST_CASE("a direction of a link does one copy at a time, beside the other one and kernels") {
  Timed cuda("launch:0+7000,copy:0+100", "link:10,memory:1000");
  REQUIRE(cuda.copy(true, cuda.first) == kOk);
  CHECK(cuda.done_ns(cuda.first) == 1100);
  void* const third = cuda.stream();
  REQUIRE(cuda.copy(true, cuda.second) == kOk);  // after the copy on the other stream
  CHECK(cuda.done_ns(cuda.second) == 2200);
  CHECK(fake_cuda_stream_stalled_ns(cuda.second) == 0);
  REQUIRE(cuda.copy(false, third) == kOk);
  CHECK(cuda.done_ns(third) == 1100);
  void* const fourth = cuda.stream();
  cuda.run_kernel(fourth);
  CHECK(cuda.done_ns(fourth) == 7000);
  REQUIRE(cuda.copy_async(cuda.memory + kBytes, cuda.memory, kBytes, third) == kOk);
  CHECK(cuda.done_ns(third) == 1210);
}

TEST_CASE("a stream waits for an event's work, and stalls where it has nothing else to do") {
  Timed cuda("launch:0+1000");
  void* const event = cuda.event();
  for (int i = 0; i < 3; ++i) cuda.run_kernel(cuda.first);
  cuda.record(event, cuda.first);
  cuda.run_kernel(cuda.first);  // is not waited for
  cuda.run_kernel(cuda.second);
  cuda.wait(cuda.second, event, 0);
  CHECK(fake_cuda_stream_stalled_ns(cuda.second) == 0);  // nothing has come yet that waits
  cuda.run_kernel(cuda.second);
  CHECK(cuda.done_ns(cuda.second) == 4000);
  CHECK(fake_cuda_stream_stalled_ns(cuda.second) == 2000);
}

TEST_CASE("work that is over before the host comes to the next stalls nobody") {
  Timed cuda("launch:500+1000");
  void* const event = cuda.event();
  cuda.run_kernel(cuda.first);  // from 500 to 1500
  cuda.record(event, cuda.first);
  cuda.wait(cuda.second, event, 0);
  for (int i = 0; i < 2; ++i) cuda.run_kernel(nullptr);  // until 1500 for the host
  cuda.run_kernel(cuda.second);                          // at 2000
  CHECK(fake_cuda_stream_stalled_ns(cuda.second) == 0);
  CHECK(cuda.done_ns(cuda.second) == 3000);
}

TEST_CASE("a drain costs the host what is left of the work") {
  Timed cuda("launch:100+1000");
  for (int i = 0; i < 4; ++i) cuda.run_kernel(cuda.first);
  CHECK(fake_cuda_host_time_ns() == 400);
  REQUIRE(cuda.synchronize_device() == kOk);
  CHECK(fake_cuda_host_time_ns() == 4100);
  CHECK(fake_cuda_host_waited_ns() == 3700);
  REQUIRE(cuda.synchronize_device() == kOk);
  CHECK(fake_cuda_host_waited_ns() == 3700);
}

TEST_CASE("work is done when its time has come, and asking takes time") {
  Timed cuda("launch:0+2500,event_query:10");
  void* const event = cuda.event();
  cuda.run_kernel(cuda.first);
  cuda.record(event, cuda.first);
  int asked = 0;
  while (cuda.query(event) == kNotReadyCode) ++asked;
  CHECK(asked == 3);
  CHECK(fake_cuda_host_time_ns() == 3 * 1010 + 10);
  CHECK(fake_cuda_host_waited_ns() == 0);
  CHECK(cuda.query_stream(cuda.first) == kOk);
}

TEST_CASE("a kernel takes time by its threads") {
  Timed cuda("launch:0+50", "threads:4");
  cuda.launch(const_cast<char*>("kernel"), 5, 2, 3, 8, 4, 1, 0, cuda.first, nullptr, nullptr);
  CHECK(cuda.done_ns(cuda.first) == 50 + 5 * 2 * 3 * 8 * 4 / 4);
}

TEST_CASE("speeds are read from text") {
  const Speeds speeds = parse_speeds("link:25,threads:200");
  CHECK(speeds.link_bytes == 25);
  CHECK(speeds.memory_bytes == 0);
  CHECK(speeds.threads == 200);
  for (const char* const wrong : {"link", "link:x", "disk:1"}) {
    INFO(wrong);
    CHECK_THROWS_AS(parse_speeds(wrong), std::invalid_argument);
  }
}

}  // namespace
}  // namespace tidepool::fake_cuda
