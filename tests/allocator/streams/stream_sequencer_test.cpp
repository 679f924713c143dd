#include "allocator/streams/stream_sequencer.h"

#include "tests/support/catch.h"
#include "tests/support/death.h"
#include "tests/support/simulated_streams.h"

namespace tidepool {
namespace {

constexpr StreamId kOther{1};

struct World {
  World() {
    sequencer.set_order(&order);
    sequencer.add_stream(kOther);
  }
  // A use of memory by the stream that ends now.
  StreamUse use(StreamId stream) const { return {stream, sequencer.clocks().open(stream)}; }

  test::SimulatedStreams order{2};
  CallsInFlight calls;
  AllocatorStatistics counts;
  StreamSequencer sequencer{calls, counts};
  DeviceMutex mutex;
  DeviceLock lock{mutex};
};

TEST_CASE("a stream waits once for a use of another, and for none of its own") {
  World world;
  StreamUses own{world.use(StreamId::kDefault)};
  CHECK(world.sequencer.order_after(world.lock, StreamId::kDefault, own));
  CHECK(world.order.waits == 0);
  const StreamUse use = world.use(kOther);
  for (int k = 0; k < 2; ++k) {
    StreamUses uses{use};
    CHECK(world.sequencer.order_after(world.lock, StreamId::kDefault, uses));
    CHECK(uses == StreamUses{world.use(StreamId::kDefault)});  // from now on it is its own
    CHECK(world.order.waits == 1);
    CHECK(world.counts.stream_waits == 1);
  }
  CHECK(world.lock.owns_lock());
  CHECK_FALSE(world.calls.any());
}

TEST_CASE("who waits for uses that have a fence of their own does not wait for later work") {
  World world;
  constexpr Address kFirst{4096}, kSecond{8192};
  CHECK(world.order.launch(kOther, kFirst, 512).empty());
  StreamUses uses{world.use(kOther)};
  world.sequencer.close_uses(kOther, world.order.record(kOther));
  CHECK(world.order.launch(kOther, kSecond, 512).empty());
  CHECK(world.sequencer.order_after(world.lock, StreamId::kDefault, uses));
  CHECK(world.order.records == 1);
  CHECK(world.order.launch(StreamId::kDefault, kFirst, 512).empty());
  CHECK_FALSE(world.order.launch(StreamId::kDefault, kSecond, 512).empty());  // did not wait
  StreamUses later{world.use(kOther)};
  CHECK(world.sequencer.order_after(world.lock, StreamId::kDefault, later));
  CHECK(world.order.records == 2);
  world.sequencer.clocks().check_invariants();
}

TEST_CASE("a stream keeps no more fences that nobody waits for than can be searched") {
  World world;
  for (int k = 0; k < 1000; ++k) world.sequencer.close_uses(kOther, world.order.record(kOther));
  CHECK(world.sequencer.clocks().milestones(kOther) < 1000);
  StreamUses uses{world.use(kOther)};
  CHECK(world.sequencer.order_after(world.lock, StreamId::kDefault, uses));
}

TEST_CASE("what the host has waited for has passed for everyone") {
  World world;
  StreamUses uses{world.use(kOther)};
  const StreamUse use = uses[0];
  CHECK_FALSE(world.sequencer.take_passed());
  CHECK(world.sequencer.wait_for(world.lock, uses));
  CHECK(uses.empty());
  CHECK(world.sequencer.clocks().passed(use));
  CHECK(world.sequencer.take_passed());
  CHECK_FALSE(world.sequencer.take_passed());  // asked for once
}

TEST_CASE("a device that refuses leaves the uses as they are, and says why") {
  World world;
  StreamUses uses{world.use(kOther)};
  world.order.fail_at(1, 2);  // the fence, and the wait for all work in its place
  CHECK_FALSE(world.sequencer.order_after(world.lock, StreamId::kDefault, uses));
  CHECK(uses.size() == 1);
  CHECK_FALSE(world.sequencer.error().empty());
  CHECK(world.lock.owns_lock());
  CHECK(world.sequencer.order_after(world.lock, StreamId::kDefault, uses));
}

TEST_CASE("where a stream does not record, all work is waited for") {
  World world;
  StreamUses uses{world.use(kOther)};
  world.order.destroy(kOther);
  CHECK(world.sequencer.wait_for(world.lock, uses));
  CHECK(world.order.finishes == 1);
}

TEST_CASE("an order is suspended as often as it has to be resumed") {
  World world;
  world.sequencer.suspend(), world.sequencer.suspend();
  world.sequencer.resume();
  CHECK_FALSE(world.sequencer.can_order());
  world.sequencer.resume();
  CHECK(world.sequencer.can_order());
  CHECK(test::dies([&] { world.sequencer.resume(); }));
  CHECK(test::dies([&] { world.sequencer.add_stream(StreamId{1 << 16}); }));
}

}  // namespace
}  // namespace tidepool
