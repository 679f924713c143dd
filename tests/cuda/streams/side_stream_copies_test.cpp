#include "cuda/streams/side_stream_copies.h"

#include "tests/cuda/fake_driver.h"
#include "tests/support/catch.h"

namespace tidepool::device {
namespace {

constexpr auto kOut = CopyDirection::kOut;
constexpr auto kIn = CopyDirection::kIn;

struct World {
  test::FakeDriver fake{2};
  Driver driver{fake.functions(), 1};
  StreamTable table;
  std::shared_ptr<EventPool> pool = EventPool::make(driver);
};

void* const kDevice = reinterpret_cast<void*>(uintptr_t{1} << 44);

TEST_CASE("copies out and in run on streams of their own, after what they are ordered after") {
  World world;
  char host[64];
  driver::Stream job = world.fake.add_stream(1);
  {
    SideStreamCopies copies(world.driver, world.table, world.pool);
    CHECK(world.fake.calls("cuStreamCreate") == 0);
    world.fake.launch(job, 1);
    copies.order_after(kOut, world.table.id_of(job));
    copies.copy(kOut, host, kDevice, 64);
    auto out = copies.record(kOut);
    copies.wait(kIn, *out);
    copies.copy(kIn, kDevice, host, 64);
    auto in = copies.record(kIn);
    REQUIRE(world.fake.copies.size() == 2);
    CHECK(world.fake.copies[0].stream != job);
    CHECK(world.fake.copies[1].stream != job);
    CHECK(world.fake.copies[0].stream != world.fake.copies[1].stream);
    CHECK(world.table.id_of(world.fake.copies[0].stream) == copies.stream(kOut));
    CHECK(world.table.id_of(world.fake.copies[1].stream) == copies.stream(kIn));
    CHECK(world.fake.copies[0].to == reinterpret_cast<uintptr_t>(host));
    CHECK(world.fake.copies[1].from == reinterpret_cast<uintptr_t>(host));
    REQUIRE(world.fake.waits.size() == 2);
    CHECK(world.fake.recorded_on[0] == job);
    CHECK(world.fake.waits[0].stream == world.fake.copies[0].stream);
    CHECK(world.fake.waits[1].stream == world.fake.copies[1].stream);
    CHECK_FALSE(in->passed());
    world.fake.finish(world.fake.copies[1].stream, 1);
    CHECK(in->passed());
    CHECK_FALSE(out->passed());
    CHECK(world.fake.calls("cuStreamCreate") == 2);
  }
  CHECK(world.fake.calls("cuStreamDestroy") == 2);
}

TEST_CASE("a refused call throws, copies nothing, and the next copy works") {
  for (size_t n = 1; n <= 12; ++n) {
    World world;
    char host[8];
    const StreamId job = world.table.id_of(world.fake.add_stream(1));
    SideStreamCopies copies(world.driver, world.table, world.pool);
    world.fake.fail_at(n);
    bool threw = false;
    try {
      copies.order_after(kOut, job);
      copies.copy(kOut, host, kDevice, 8);
    } catch (const DeviceError&) {
      threw = true;
    }
    CHECK(threw == world.fake.failed());
    CHECK(world.fake.copies.size() <= 1);
    world.fake.fail_at(0);
    copies.copy(kOut, host, kDevice, 8);
    copies.record(kOut)->wait();
    CHECK(world.pool->created() == world.fake.event_count());
    CHECK(world.fake.current_device() == -1);
  }
}

TEST_CASE("memory of the host is had until it is refused, and given back") {
  World world;
  world.fake.host_bytes = 100;
  SideStreamCopies copies(world.driver, world.table, world.pool);
  void* const first = copies.allocate_host(60);
  REQUIRE(first != nullptr);
  CHECK(copies.allocate_host(60) == nullptr);
  copies.free_host(first);
  CHECK(world.fake.host_held() == 0);
}

TEST_CASE("how fast copies are is measured, and guessed where there is no memory for it") {
  World world;
  SideStreamCopies copies(world.driver, world.table, world.pool);
  CHECK(copies.measure_ns_per_byte(kOut, 1000) > 0);
  const size_t copied = world.fake.copies.size();
  CHECK(copied > 0);
  CHECK(world.fake.host_held() == 0);
  CHECK(world.fake.allocation_count() == 0);
  world.fake.host_bytes = 0;
  CHECK(copies.measure_ns_per_byte(kIn, 1000) > 0);
  world.fake.memory_bytes = 0;
  CHECK(copies.measure_ns_per_byte(kIn, 1000) > 0);
  CHECK(world.fake.copies.size() == copied);
  CHECK(world.fake.allocation_count() == 0);
}

}  // namespace
}  // namespace tidepool::device
