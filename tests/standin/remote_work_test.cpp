// Work that other processes do, on the stand-in device: what comes behind it waits for it.
#include "tests/support/fake_cuda/core/remote_work.h"

#include <atomic>
#include <memory>
#include <thread>

#include "tests/standin/driver.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda/core/stream_calls.h"

namespace tidepool::fake_cuda {
namespace {

using Ended = RemoteWork::State;

constexpr int kLate = static_cast<int>(Error::kNotReady);
constexpr int kFailed = static_cast<int>(Error::kLaunchFailed);

// A stream with such work, and one that waits for it.
struct Case {
  Driver cuda;
  void* const stream = cuda.stream();
  void* const behind = cuda.stream();
  void* const event = cuda.event();
  const std::shared_ptr<RemoteWork> work = std::make_shared<RemoteWork>();

  Case() {
    Works earlier;
    REQUIRE(calls::launch_remote("work", stream, work, &earlier) == Error::kSuccess);
    CHECK(earlier.empty());
    REQUIRE(cuda.record(event, stream) == kOk);
    REQUIRE(cuda.wait(behind, event, 0) == kOk);
  }
  int launch(void* on) const { return static_cast<int>(calls::launch("launch", on, "kernel")); }
};

TEST_CASE("events and streams behind remote work are not ready until it has ended") {
  const Case made;
  void* const other = made.cuda.stream();
  CHECK(made.cuda.query(made.event) == kLate);
  CHECK(made.cuda.query_stream(made.stream) == kLate);
  CHECK(made.cuda.query_stream(made.behind) == kLate);
  CHECK(made.launch(other) == kOk);
  CHECK(made.cuda.synchronize_stream(other) == kOk);
  made.work->end(Ended::kDone);
  CHECK(made.cuda.query(made.event) == kOk);
  CHECK(made.cuda.query_stream(made.behind) == kOk);
}

TEST_CASE("what is enqueued behind remote work, or waits for it, waits until it has ended") {
  const bool enqueues = GENERATE(true, false);
  const Case made;
  std::atomic<bool> ended = false;
  std::thread other([&] {
    ended = true;
    made.work->end(Ended::kDone);
  });
  if (enqueues) {
    CHECK(made.launch(made.behind) == kOk);
  } else {
    CHECK(made.cuda.synchronize(made.event) == kOk);
  }
  CHECK(ended);
  other.join();
}

TEST_CASE("further remote work is enqueued at once, and told what it comes after") {
  const Case made;
  Works earlier;
  const auto second = std::make_shared<RemoteWork>();
  REQUIRE(calls::launch_remote("work", made.behind, second, &earlier) == Error::kSuccess);
  CHECK(earlier == Works{made.work});
  second->end(Ended::kDone);
  CHECK(made.cuda.query_stream(made.behind) == kLate);
  made.work->end(Ended::kDone);
  CHECK(made.cuda.query_stream(made.behind) == kOk);
}

TEST_CASE("what waits for remote work that has failed fails, and so does all that follows") {
  const Case made;
  made.work->end(Ended::kFailed);
  CHECK(made.cuda.query(made.event) == kLate);
  CHECK(made.cuda.synchronize(made.event) == kFailed);
  CHECK(made.cuda.query(made.event) == kFailed);
}

TEST_CASE("remote work that has failed is over when it is given up") {
  const Case made;
  made.work->end(Ended::kFailed);
  made.work->end(Ended::kDone);
  CHECK(made.cuda.synchronize(made.event) == kOk);
  CHECK(made.launch(made.behind) == kOk);
}

}  // namespace
}  // namespace tidepool::fake_cuda
