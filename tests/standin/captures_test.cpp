// Stream capture and graphs on the stand-in device.
#include "tests/support/fake_cuda/core/captures.h"

#include <thread>

#include "tests/standin/driver.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda/control.h"
#include "tests/support/fake_cuda/core/stream_calls.h"

extern "C" int cudaHostRegister(void* address, size_t bytes, unsigned flags);

namespace tidepool::fake_cuda {
namespace {

constexpr int kGlobal = 0;
constexpr int kRelaxed = 2;

Error begin(void* stream, int mode = kGlobal) {
  return calls::capture_begin("begin", stream, mode);
}

Error end(void* stream, void** graph) { return calls::capture_end("end", stream, graph); }

int status(void* stream) {
  calls::CaptureInfo info;
  calls::capture_info("info", stream, &info);
  return info.status;
}

TEST_CASE("a capture lists what its streams would do, and a launch is one operation") {
  Driver cuda;
  void* const stream = cuda.stream();
  void* const side = cuda.stream();
  void* const fork = cuda.event();
  void* const join = cuda.event();
  REQUIRE(begin(stream) == Error::kSuccess);
  CHECK(status(stream) == 1);
  CHECK(status(side) == 0);
  cuda.run_kernel(stream);
  cuda.record(fork, stream);
  cuda.wait(side, fork, 0);
  CHECK(status(side) == 1);
  cuda.run_kernel(side);
  cuda.record(join, side);
  cuda.wait(stream, join, 0);
  cuda.record(fork, side);  // a record is no work that has to be joined
  void* graph = nullptr;
  REQUIRE(end(stream, &graph) == Error::kSuccess);
  CHECK(status(stream) == 0);
  CHECK(status(side) == 0);
  size_t nodes = 0;
  calls::graph_node_count("nodes", graph, &nodes);
  CHECK(nodes == 2);

  void* executable = nullptr;
  REQUIRE(calls::graph_instantiate("instantiate", &executable, graph) == Error::kSuccess);
  const Tick before = cuda.machine.order.stream(stream, 0).tick;
  CHECK(calls::graph_launch("launch", executable, stream) == Error::kSuccess);
  CHECK(cuda.machine.order.stream(stream, 0).tick == before + 1);
  CHECK(calls::graph_destroy("destroy", graph) == Error::kSuccess);
  CHECK(calls::graph_destroy("destroy", graph) == Error::kInvalidValue);
  CHECK(calls::graph_launch("launch", executable, stream) == Error::kSuccess);
  CHECK(calls::graph_destroy_instantiated("destroy", executable) == Error::kSuccess);
  CHECK(cuda.machine.captures.live_graphs() == 0);
}

TEST_CASE("a copy under capture moves nothing") {
  Driver cuda;
  driver::DeviceAddress memory = 0;
  REQUIRE(cuda.allocate(&memory, kPage) == kOk);
  void* const stream = cuda.stream();
  REQUIRE(begin(stream) == Error::kSuccess);
  CHECK(cuda.fill_async(memory, 1, 16, stream) == kOk);
  CHECK(*reinterpret_cast<char*>(memory) == 0);
  CHECK(end(stream, nullptr) == Error::kSuccess);
}

TEST_CASE("a capture that is not joined, or ends elsewhere, gives no graph") {
  Driver cuda;
  void* const stream = cuda.stream();
  void* const side = cuda.stream();
  void* const event = cuda.event();
  void* graph = nullptr;
  REQUIRE(begin(stream) == Error::kSuccess);
  cuda.record(event, stream);
  cuda.wait(side, event, 0);
  cuda.run_kernel(side);
  CHECK(end(side, &graph) == Error::kCaptureUnmatched);
  CHECK(end(stream, &graph) == Error::kCaptureUnjoined);
  CHECK(graph == nullptr);
  CHECK(status(stream) == 0);
  CHECK(end(stream, &graph) == Error::kInvalidValue);
  CHECK(begin(nullptr) == Error::kCaptureUnsupported);
}

TEST_CASE("an unsafe call spoils a capture, unless the thread's mode is relaxed") {
  Driver cuda;
  void* const stream = cuda.stream();
  void* const event = cuda.event();
  driver::DeviceAddress memory = 0;
  constexpr int kForbidden = static_cast<int>(Error::kCaptureUnsupported);

  REQUIRE(begin(stream) == Error::kSuccess);
  int mode = kRelaxed;
  REQUIRE(calls::capture_exchange_mode("exchange", &mode) == Error::kSuccess);
  CHECK(cuda.allocate(&memory, 1) == kOk);
  CHECK(cuda.query(event) == kOk);
  REQUIRE(calls::capture_exchange_mode("exchange", &mode) == Error::kSuccess);
  CHECK(mode == kRelaxed);
  CHECK(end(stream, nullptr) == Error::kSuccess);

  const auto spoils = [&](auto&& call) {
    REQUIRE(begin(stream) == Error::kSuccess);
    CHECK(call() == kForbidden);
    CHECK(status(stream) == 2);
    CHECK(end(stream, nullptr) == Error::kCaptureInvalidated);
  };
  spoils([&] { return cuda.allocate(&memory, 1); });
  spoils([&] { return cuda.query(event); });
  spoils([&] { return cuda.synchronize(event); });
  spoils([&] { return cuda.synchronize_device(); });
  spoils([&] { return cuda.synchronize_stream(stream); });
  spoils([&] { return cuda.query_stream(stream); });
  spoils([&] { return cudaHostRegister(&cuda, 1, 0); });

  const auto allocated_in_a_thread = [&] {
    int result = 0;
    std::thread([&] {
      use_context(0);
      result = cuda.allocate(&memory, 1);
    }).join();
    return result;
  };
  REQUIRE(begin(stream) == Error::kSuccess);
  CHECK(allocated_in_a_thread() == kForbidden);
  CHECK(end(stream, nullptr) == Error::kCaptureInvalidated);
  REQUIRE(begin(stream, 1) == Error::kSuccess);  // of this thread only
  CHECK(allocated_in_a_thread() == kOk);
  CHECK(end(stream, nullptr) == Error::kSuccess);
  REQUIRE(begin(stream) == Error::kSuccess);
  std::thread([&] { CHECK(end(stream, nullptr) == Error::kCaptureWrongThread); }).join();
  CHECK(end(stream, nullptr) == Error::kSuccess);
}

TEST_CASE("a capture that is spoiled takes no more, and ends with nothing") {
  Driver cuda;
  void* const stream = cuda.stream();
  void* const event = cuda.event();
  driver::DeviceAddress memory = 0;
  constexpr int kSpoiled = static_cast<int>(Error::kCaptureInvalidated);
  REQUIRE(begin(stream) == Error::kSuccess);
  CHECK(cuda.run_kernel(stream) == kOk);
  CHECK(cuda.allocate(&memory, 1) == static_cast<int>(Error::kCaptureUnsupported));
  CHECK(cuda.run_kernel(stream) == kSpoiled);
  CHECK(cuda.record(event, stream) == kSpoiled);
  CHECK(cuda.wait(stream, event, 0) == kSpoiled);
  void* graph = &graph;
  CHECK(end(stream, &graph) == Error::kCaptureInvalidated);
  CHECK(graph == nullptr);
  CHECK(cuda.run_kernel(stream) == kOk);
  CHECK(cuda.allocate(&memory, 1) == kOk);
}

TEST_CASE("work of the host's that a graph has runs at each launch, and goes with the last graph") {
  Driver cuda;
  void* const stream = cuda.stream();
  struct Counts {
    int runs = 0;
    int drops = 0;
  } counts;
  const auto take = [&] {
    return fake_cuda_capture_work(
        stream, [](void* data) { ++static_cast<Counts*>(data)->runs; },
        [](void* data) { ++static_cast<Counts*>(data)->drops; }, &counts);
  };
  CHECK(take() == 0);
  void* graph = nullptr;
  void* executable = nullptr;
  REQUIRE(begin(stream) == Error::kSuccess);
  CHECK(take() == 1);
  CHECK(fake_cuda_capture_work(stream, nullptr, nullptr, nullptr) == 1);  // only asks
  REQUIRE(end(stream, &graph) == Error::kSuccess);
  REQUIRE(calls::graph_instantiate("instantiate", &executable, graph) == Error::kSuccess);
  CHECK(counts.runs == 0);
  CHECK(calls::graph_launch("launch", executable, stream) == Error::kSuccess);
  CHECK(calls::graph_launch("launch", executable, stream) == Error::kSuccess);
  CHECK(counts.runs == 2);
  CHECK(calls::graph_destroy("destroy", graph) == Error::kSuccess);
  CHECK(counts.drops == 0);
  CHECK(calls::graph_destroy_instantiated("destroy", executable) == Error::kSuccess);
  CHECK(counts.drops == 1);
}

TEST_CASE("captured and other work do not wait for each other") {
  Driver cuda;
  void* const stream = cuda.stream();
  void* const other = cuda.stream();
  void* const captured = cuda.event();
  void* const outside = cuda.event();
  cuda.run_kernel(other);
  cuda.record(outside, other);
  REQUIRE(begin(stream) == Error::kSuccess);
  cuda.record(captured, stream);
  CHECK(cuda.query(outside) == static_cast<int>(Error::kCaptureUnsupported));
  end(stream, nullptr);

  REQUIRE(begin(stream) == Error::kSuccess);
  CHECK(cuda.wait(stream, outside, 0) == static_cast<int>(Error::kCaptureIsolation));
  CHECK(end(stream, nullptr) == Error::kCaptureInvalidated);

  REQUIRE(begin(stream) == Error::kSuccess);
  cuda.record(captured, stream);
  REQUIRE(begin(other) == Error::kSuccess);
  CHECK(cuda.wait(other, captured, 0) == static_cast<int>(Error::kCaptureMerge));
  CHECK(end(other, nullptr) == Error::kCaptureInvalidated);
  CHECK(end(stream, nullptr) == Error::kCaptureInvalidated);
  CHECK(cuda.query(captured) == static_cast<int>(Error::kCapturedEvent));
  CHECK(cuda.wait(other, captured, 0) == static_cast<int>(Error::kCapturedEvent));
}

TEST_CASE("work on the legacy stream refuses to depend on a blocking stream's capture") {
  Driver cuda;
  void* const blocking = cuda.stream(0);
  void* const free = cuda.stream();
  REQUIRE(begin(blocking) == Error::kSuccess);
  CHECK(cuda.run_kernel(nullptr) == static_cast<int>(Error::kCaptureImplicit));
  CHECK(end(blocking, nullptr) == Error::kSuccess);
  REQUIRE(begin(free) == Error::kSuccess);
  CHECK(cuda.run_kernel(nullptr) == kOk);
  CHECK(end(free, nullptr) == Error::kSuccess);
}

}  // namespace
}  // namespace tidepool::fake_cuda
