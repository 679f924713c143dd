// Streams and events on the stand-in device: what is done when, late events, virtual time.
#include <cmath>
#include <thread>

#include "tests/standin/driver.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda/control.h"
#include "tests/support/fake_cuda/core/stream_calls.h"

namespace tidepool::fake_cuda {
namespace {

TEST_CASE("events and streams are done at once unless they are late") {
  Driver cuda;
  void* const stream = cuda.stream();
  void* const event = cuda.event();
  CHECK(cuda.query(event) == kOk);  // never recorded
  REQUIRE(cuda.run_kernel(stream) == kOk);
  REQUIRE(cuda.record(event, stream) == kOk);
  CHECK(cuda.query(event) == kOk);
  CHECK(cuda.query_stream(stream) == kOk);
}

TEST_CASE("a late event is done after as many queries, and takes what came before it along") {
  Driver cuda({.late_queries = 2});
  void* const stream = cuda.stream();
  void* const first = cuda.event();
  void* const second = cuda.event();
  cuda.run_kernel(stream);
  cuda.record(first, stream);
  cuda.run_kernel(stream);
  cuda.record(second, stream);
  CHECK(cuda.query(second) == kNotReadyCode);
  CHECK(cuda.query(second) == kNotReadyCode);
  CHECK(cuda.query(second) == kOk);
  CHECK(cuda.query(second) == kOk);
  CHECK(cuda.query(first) == kOk);  // was recorded earlier on the same stream

  cuda.run_kernel(stream);
  CHECK(cuda.query_stream(stream) == kNotReadyCode);
  CHECK(cuda.query_stream(stream) == kNotReadyCode);
  CHECK(cuda.query_stream(stream) == kOk);
}

TEST_CASE("a late event is pending even where no work is") {
  Driver cuda({.late_queries = 1});
  void* const stream = cuda.stream();
  void* const event = cuda.event();
  cuda.record(event, stream);
  CHECK(cuda.query(event) == kNotReadyCode);
  CHECK(cuda.query(event) == kOk);
}

TEST_CASE("an event that waits to be asked for is done by waiting, or when a test says so") {
  Driver cuda({.late_queries = kOnlyWhenAsked});
  void* const stream = cuda.stream();
  void* const other = cuda.stream();
  void* const event = cuda.event();
  cuda.run_kernel(stream);
  cuda.record(event, stream);
  for (int i = 0; i < 5; ++i) CHECK(cuda.query(event) == kNotReadyCode);

  SECTION("synchronised itself") { CHECK(cuda.synchronize(event) == kOk); }
  SECTION("its stream synchronised") { CHECK(cuda.synchronize_stream(stream) == kOk); }
  SECTION("the device synchronised") { CHECK(cuda.synchronize_device() == kOk); }
  SECTION("a stream that waited for it synchronised") {
    cuda.wait(other, event, 0);
    CHECK(cuda.synchronize_stream(other) == kOk);
  }
  SECTION("completed by the test") { fake_cuda_complete(stream); }
  CHECK(cuda.query(event) == kOk);

  cuda.run_kernel(other);
  cuda.record(event, other);  // recorded again: pending again
  CHECK(cuda.query(event) == kNotReadyCode);
  CHECK(cuda.synchronize_stream(stream) == kOk);  // has nothing to do with it
  CHECK(cuda.query(event) == kNotReadyCode);
}

TEST_CASE("the legacy stream is ordered with blocking streams and with no others") {
  Driver cuda;
  void* const blocking = cuda.stream(0);
  void* const free = cuda.stream(kNonBlocking);
  Order& order = cuda.machine.order;
  cuda.run_kernel(blocking);
  cuda.run_kernel(free);
  cuda.run_kernel(nullptr);
  const Stream& legacy = order.stream(nullptr, 0);
  CHECK(legacy.clock.of(order.stream(blocking, 0).id) == 1);
  CHECK(legacy.clock.of(order.stream(free, 0).id) == 0);
  cuda.run_kernel(blocking);
  cuda.run_kernel(free);
  CHECK(order.stream(blocking, 0).clock.of(legacy.id) == 1);
  CHECK(order.stream(free, 0).clock.of(legacy.id) == 0);
}

TEST_CASE("handles that are not alive are refused") {
  Driver cuda;
  void* const stream = cuda.stream();
  void* const event = cuda.event();
  REQUIRE(cuda.destroy_stream(stream) == kOk);
  REQUIRE(cuda.destroy_event(event) == kOk);
  constexpr int kNoHandle = static_cast<int>(Error::kInvalidHandle);
  CHECK(cuda.run_kernel(stream) == kNoHandle);
  CHECK(cuda.destroy_stream(stream) == kNoHandle);
  CHECK(cuda.destroy_stream(nullptr) == kNoHandle);
  CHECK(cuda.record(event, nullptr) == kNoHandle);
  CHECK(cuda.query(event) == kNoHandle);
  CHECK(cuda.destroy_event(event) == kNoHandle);
  CHECK(cuda.machine.misuses.size() == 6);
  CHECK(cuda.machine.order.live_streams() == 0);
  CHECK(cuda.machine.order.live_events() == 0);
}

TEST_CASE("an event belongs to the streams of its device") {
  Driver cuda({.devices = 2});
  void* const event = cuda.event();
  current_device() = 1;
  void* const stream = cuda.stream();
  CHECK(cuda.record(event, stream) == static_cast<int>(Error::kInvalidHandle));
  CHECK(cuda.record(event, nullptr) == static_cast<int>(Error::kInvalidHandle));
  CHECK(cuda.wait(stream, event, 0) == kOk);  // waiting may cross devices
  current_device() = 0;
  CHECK(cuda.record(event, nullptr) == kOk);
}

TEST_CASE("calls cost the host their price, work keeps its stream busy, and events tell the time") {
  Driver cuda({.prices = parse_prices("launch:100+1000,map:7,event_record:10")});
  void* const stream = cuda.stream();
  void* const start = cuda.event();
  void* const end = cuda.event();
  cuda.record(start, stream);                           // host 10, stream 10
  for (int i = 0; i < 3; ++i) cuda.run_kernel(stream);  // host 310; stream 110, then + 3000
  cuda.record(end, stream);
  CHECK(fake_cuda_host_time_ns() == 320);
  float milliseconds = 0;
  REQUIRE(cuda.elapsed(&milliseconds, start, end) == kOk);
  CHECK(std::abs(milliseconds - 3100e-6f) < 1e-8f);
  REQUIRE(cuda.synchronize(end) == kOk);
  CHECK(fake_cuda_host_time_ns() == 3110);

  void* const untimed = cuda.event(kDisableTiming);
  cuda.record(untimed, stream);
  CHECK(cuda.elapsed(&milliseconds, start, untimed) == static_cast<int>(Error::kInvalidHandle));
}

TEST_CASE("a stream that waits is not done before what it waits for") {
  Driver cuda({.prices = parse_prices("launch:0+1000")});
  void* const first = cuda.stream();
  void* const second = cuda.stream();
  void* const event = cuda.event();
  void* const end = cuda.event();
  cuda.run_kernel(first);
  cuda.record(event, first);
  cuda.wait(second, event, 0);
  cuda.run_kernel(second);
  cuda.record(end, second);
  float milliseconds = 0;
  REQUIRE(cuda.elapsed(&milliseconds, event, end) == kOk);
  CHECK(std::abs(milliseconds - 1e-3f) < 1e-8f);
}

TEST_CASE("every thread has a default stream of its own, and all have the legacy stream") {
  Driver cuda({.late_queries = kOnlyWhenAsked});
  void* const legacy = reinterpret_cast<void*>(1);
  void* const of_thread = reinterpret_cast<void*>(2);
  const auto id = [](void* stream) {
    unsigned long long number = 0;
    CHECK(calls::stream_id("id", stream, &number) == Error::kSuccess);
    return number;
  };
  CHECK(id(legacy) == id(nullptr));
  const auto mine = id(of_thread);
  CHECK(mine == id(of_thread));
  CHECK(mine != id(legacy));
  unsigned long long other = mine;
  std::thread([&] {
    use_context(0);
    other = id(of_thread);
    CHECK(id(legacy) == id(nullptr));
    CHECK(cuda.run_kernel(of_thread) == kOk);
    CHECK(cuda.query_stream(of_thread) == kNotReadyCode);
  }).join();
  CHECK(other != mine);
  CHECK(other != id(legacy));
  CHECK(cuda.query_stream(of_thread) == kOk);  // nothing was given to this thread's
  CHECK(cuda.destroy_stream(of_thread) == static_cast<int>(Error::kInvalidHandle));
  CHECK(fake_cuda_live("streams") == 0);
}

}  // namespace
}  // namespace tidepool::fake_cuda
