#include "cuda/streams/events.h"

#include "cuda/streams/event_order.h"
#include "tests/cuda/fake_driver.h"
#include "tests/support/catch.h"
#include "tests/support/death.h"
#include "tests/support/host_fence.h"

namespace tidepool::device {
namespace {

struct World {
  explicit World(int ordinal = 0) : driver(fake.functions(), ordinal) {}
  test::FakeDriver fake{2};
  Driver driver;
  std::shared_ptr<EventPool> pool = EventPool::make(driver);
};

TEST_CASE("a fence passes when the work before it is done, and not the work after it") {
  World world;
  driver::Stream stream = world.fake.add_stream(0);
  world.fake.launch(stream, 0);
  auto fence = world.pool->record(stream);
  CHECK_FALSE(fence->passed());
  world.fake.finish(stream, 0);
  world.fake.launch(stream, 0);
  CHECK(fence->passed());
  auto later = world.pool->record(stream);
  CHECK_FALSE(later->passed());
  later->wait();
  CHECK(later->passed());
}

TEST_CASE("events are used again once their fence is gone, and destroyed at the end") {
  World world;
  driver::Stream stream = world.fake.add_stream(0);
  for (int i = 0; i < 10; ++i) {
    auto one = world.pool->record(stream);
    auto two = world.pool->record(stream);
    CHECK(world.pool->idle() == 0);
  }
  CHECK(world.pool->created() == 2);
  CHECK(world.pool->idle() == 2);
  CHECK(world.fake.event_count() == 2);
  auto last = world.pool->record(stream);
  world.pool.reset();  // the fence keeps the pool
  last->wait();
  last.reset();
  CHECK(world.fake.event_count() == 0);
}

TEST_CASE("the default stream is the device's own, whatever device the thread is on") {
  World world(1);
  world.fake.make_current(0);
  world.fake.launch(nullptr, 1);
  auto fence = world.pool->record(nullptr);
  CHECK(world.fake.recorded_devices == std::vector<int>{1});
  world.fake.finish(nullptr, 0);
  CHECK_FALSE(fence->passed());
  world.fake.finish(nullptr, 1);
  CHECK(fence->passed());
  world.pool->wait(nullptr, *fence);
  CHECK(world.fake.waits.back().device == 1);
  CHECK(world.fake.current_device() == 0);
}

TEST_CASE("a refused call throws and loses no event") {
  for (size_t n = 1; n <= 4; ++n) {
    World world;
    driver::Stream stream = world.fake.add_stream(0);
    world.fake.fail_at(n);
    bool threw = false;
    try {
      world.pool->record(stream);
    } catch (const DeviceError&) {
      threw = true;
    }
    CHECK(threw == world.fake.failed());
    auto fence = world.pool->record(stream);
    CHECK(world.pool->created() == world.fake.event_count());
    CHECK(world.pool->created() == world.pool->idle() + 1);
    world.fake.launch(stream, 0);
    auto other = world.pool->record(stream);
    world.fake.fail_at(1, 1, "cuEventQuery");
    CHECK_FALSE(other->passed());
    world.fake.fail_at(1, 1, "cuEventSynchronize");
    CHECK_THROWS_AS(other->wait(), DeviceError);
    world.fake.fail_at(1, 1, "cuStreamWaitEvent");
    CHECK_THROWS_AS(world.pool->wait(stream, *other), DeviceError);
    CHECK(world.fake.waits.empty());
  }
}

TEST_CASE("a fence of another kind is the caller's bug") {
  World world;
  tidepool::test::HostFence fence;
  CHECK(tidepool::test::dies([&] { world.pool->wait(nullptr, fence); }));
}

TEST_CASE("EventOrder speaks of streams by their numbers") {
  World world;
  StreamTable table;
  EventOrder order(world.driver, table, world.pool);
  driver::Stream first = world.fake.add_stream(0);
  driver::Stream second = world.fake.add_stream(0);
  StreamId a = table.id_of(first), b = table.id_of(second);
  auto fence = order.record(a);
  order.wait(b, *fence);
  CHECK(world.fake.recorded_on == std::vector<driver::Stream>{first});
  CHECK(world.fake.waits.at(0).stream == second);
  world.fake.launch(first, 0);
  auto late = order.record(a);
  order.finish();
  CHECK(late->passed());
}

}  // namespace
}  // namespace tidepool::device
