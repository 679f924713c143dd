#include "remat/residency/replay_stream_order.h"

#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/remat_fixture.h"
#include "tests/support/simulated_streams.h"

namespace tidepool {
namespace {

constexpr StreamId kMain = StreamId::kDefault;
constexpr StreamId kSide{1};

// A job on two streams: what it does on the side stream comes after what it did on the main one
// before; nothing orders the main stream after the side one, but us.
struct Streams {  // outlive the allocator
  test::SimulatedStreams streams{2};
  std::vector<std::string> races;
};
struct Job : Streams, RematFixture {
  explicit Job(size_t budget_bytes = 1 << 20) : RematFixture(budget_bytes) {
    allocator.set_stream_order(&streams);
    framework.on_use = [this](StreamId stream, const void* address, size_t bytes) {
      const std::string race = streams.launch(stream, Address::of(address), bytes);
      if (!race.empty()) races.push_back(race);
    };
  }
  void side_waits_for_main() {
    const auto fence = streams.record(kMain);
    streams.wait(kSide, *fence);
  }
  Tensor on(StreamId stream, const Tensors& inputs) {
    framework.set_stream(stream);
    return pure(inputs);
  }
  bool no_race() {
    for (const std::string& race : races) UNSCOPED_INFO(race);
    return races.empty();
  }
};

TEST_CASE("what one stream has restored can be read on another") {
  Job job;
  const auto x = job.input();
  const auto y = job.on(kMain, {x});
  job.side_waits_for_main();
  REQUIRE(job.evict(y));
  job.on(kSide, {y});
  job.on(kMain, {y});
  CHECK(job.no_race());
  CHECK(job.allocator.statistics().stream_waits == 1);
}

TEST_CASE("a replay's input can be written in place on another stream") {
  Job job;
  const auto x = job.on(kMain, {job.input()});
  const auto y = job.on(kMain, {x});
  job.side_waits_for_main();
  REQUIRE(job.evict(y));
  job.on(kSide, {y});
  job.framework.set_stream(kMain);
  job.update(x);
  CHECK(job.no_race());
}

// While the stream is made to wait for one hidden use, another thread restores what it wants.
TEST_CASE("a replay that another thread begins while an operator is ordered is not overtaken") {
  for (const bool escapes : {false, true}) {
    Job job;
    const auto x = job.on(kMain, {job.input()});
    const auto y = job.on(kMain, {x});
    const auto z = job.on(kMain, {x});
    job.side_waits_for_main();
    REQUIRE(job.evict(y));
    REQUIRE(job.evict(z));
    job.on(kSide, {y});
    job.framework.set_stream(kMain);
    bool other_has_run = false;
    job.streams.after_record = [&] {
      std::thread other([&] { job.on(kSide, {z}); });
      other.join();
      job.framework.set_stream(kMain);
      other_has_run = true;
    };
    if (escapes) {
      DeviceLock lock(job.mutex);
      job.runtime.cut(job.framework.tracked(x), remat::RootReason::kRawWrite, lock);
    }
    job.update(x);
    CHECK(other_has_run);
    CHECK(job.no_race());
  }
}

// An address is asked for on a stream that nothing has ordered after the one that made the tensors.
TEST_CASE("what is restored before an address is given away waits for what it reads") {
  for (const bool escapes : {false, true}) {
    Job job;
    job.framework.set_stream(kSide);
    const auto x = job.input();
    job.overwrite(x);
    job.update(x);
    {
      DeviceLock lock(job.mutex);
      job.runtime.cut(job.framework.tracked(x), remat::RootReason::kRawWrite, lock);
    }
    const auto y = job.on(kSide, {x});
    REQUIRE(job.evict(y));
    job.framework.set_stream(kMain);
    {
      DeviceLock lock(job.mutex);
      remat::Storage* const storage = job.framework.tracked(x);
      escapes ? job.runtime.escape(storage, lock)
              : job.runtime.cut(storage, remat::RootReason::kRawWrite, lock);
    }
    CHECK_FALSE(y->evicted);
    // Whoever has it writes on another stream.
    job.framework.on_use(kSide, x->address, x->bytes());
    CHECK(job.no_race());
  }
}

TEST_CASE("a replay's input is not handed out again before the replay has read it") {
  Job job(8192);
  const auto x = job.on(kMain, {job.input(128)});
  const auto y = job.on(kMain, {x});
  job.side_waits_for_main();
  REQUIRE(job.evict(y));
  job.on(kSide, {y});
  job.framework.set_stream(kMain);
  job.drop(x);
  for (int k = 0; k < 16; ++k) {
    const auto in = job.input(128);
    job.drop(job.on(kMain, {in}));
    job.drop(in);
  }
  CHECK(job.no_race());
}

TEST_CASE("a replay reads what another stream's replay has restored") {
  Job job;
  const auto x = job.input();
  const auto y = job.on(kMain, {x});
  const auto z = job.on(kMain, {y});
  job.side_waits_for_main();
  REQUIRE(job.evict(z));
  REQUIRE(job.evict(y));
  job.on(kSide, {y});
  job.on(kMain, {z});
  CHECK(job.no_race());
}

TEST_CASE("a job of one stream waits for nothing") {
  Job job;
  const auto x = job.input();
  const auto y = job.on(kMain, {x});
  REQUIRE(job.evict(y));
  job.on(kMain, {y});
  CHECK(job.no_race());
  CHECK(job.streams.records == 0);
  CHECK(job.allocator.statistics().stream_waits == 0);
}

}  // namespace
}  // namespace tidepool
