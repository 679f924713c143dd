#include "cuda/side_stream_copies.h"

#include "tests/cuda/fake_driver.h"
#include "tests/support/catch.h"

namespace tidepool::device {
namespace {

struct World {
  test::FakeDriver fake{2};
  Driver driver{fake.functions(), 1};
  std::shared_ptr<EventPool> pool = EventPool::make(driver);
};

void* const kDevice = reinterpret_cast<void*>(uintptr_t{1} << 44);

TEST_CASE("copies out and in run on streams of their own, after a fence and before one") {
  World world;
  char host[64];
  driver::Stream job = world.fake.add_stream(1);
  {
    SideStreamCopies copies(world.driver, world.pool);
    CHECK(world.fake.calls("cuStreamCreate") == 0);
    world.fake.launch(job, 1);
    auto after = world.pool->record(job);
    auto out = copies.copy_to_host(host, kDevice, 64, after.get());
    auto in = copies.copy_to_device(kDevice, host, 64, out.get());
    REQUIRE(world.fake.copies.size() == 2);
    CHECK(world.fake.copies[0].stream != job);
    CHECK(world.fake.copies[1].stream != job);
    CHECK(world.fake.copies[0].stream != world.fake.copies[1].stream);
    CHECK(world.fake.copies[0].to == reinterpret_cast<uintptr_t>(host));
    CHECK(world.fake.copies[1].from == reinterpret_cast<uintptr_t>(host));
    REQUIRE(world.fake.waits.size() == 2);
    CHECK(world.fake.waits[0].stream == world.fake.copies[0].stream);
    CHECK(world.fake.waits[1].stream == world.fake.copies[1].stream);
    CHECK_FALSE(in->passed());
    world.fake.finish(world.fake.copies[1].stream, 1);
    CHECK(in->passed());
    CHECK_FALSE(out->passed());
    copies.copy_to_host(host, kDevice, 8, nullptr);
    CHECK(world.fake.waits.size() == 2);
    CHECK(world.fake.calls("cuStreamCreate") == 2);
  }
  CHECK(world.fake.calls("cuStreamDestroy") == 2);
}

TEST_CASE("a refused call throws, copies nothing, and the next copy works") {
  for (size_t n = 1; n <= 12; ++n) {
    World world;
    char host[8];
    auto after = world.pool->record(world.fake.add_stream(1));
    SideStreamCopies copies(world.driver, world.pool);
    world.fake.fail_at(n);
    bool threw = false;
    try {
      copies.copy_to_host(host, kDevice, 8, after.get());
    } catch (const DeviceError&) {
      threw = true;
    }
    CHECK(threw == world.fake.failed());
    CHECK(world.fake.copies.size() <= 1);
    world.fake.fail_at(0);
    copies.copy_to_host(host, kDevice, 8, after.get())->wait();
    CHECK(world.pool->created() == world.fake.event_count());
    CHECK(world.fake.current_device() == -1);
  }
}

}  // namespace
}  // namespace tidepool::device
