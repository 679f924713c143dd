#include "allocator/streams/stream_clocks.h"

#include "tests/support/catch.h"
#include "tests/support/death.h"
#include "tests/support/host_fence.h"

namespace tidepool {
namespace {

constexpr StreamId kA{0}, kB{1}, kC{2};

struct World {
  World() {
    clocks.add_stream(kC);
    clocks.check_invariants();
  }
  // Ends the stream's epoch and records a fence for it.
  StreamUse end_epoch(StreamId stream, std::shared_ptr<Fence> fence) {
    StreamUse use{stream, clocks.close(stream)};
    clocks.add_fence(use, std::move(fence));
    clocks.check_invariants();
    return use;
  }
  StreamClocks clocks;
};

TEST_CASE("uses are joined by stream, the later one holds, in the order of streams") {
  StreamUses uses;
  add_use(uses, {kC, 3});
  add_use(uses, {kA, 5});
  add_use(uses, {kC, 2});
  add_use(uses, {kA, 7});
  CHECK(uses == StreamUses{{kA, 7}, {kC, 3}});
  StreamUses more{{kB, 1}, {kC, 9}};
  add_uses(uses, more);
  CHECK(uses == StreamUses{{kA, 7}, {kB, 1}, {kC, 9}});
}

TEST_CASE("an epoch has passed once a fence of it or of a later one has") {
  World world;
  StreamUse first{kB, world.clocks.open(kB)};
  CHECK(world.clocks.passed({kB, 0}));
  CHECK_FALSE(world.clocks.passed(first));
  world.clocks.close(kB);  // its fence was refused
  auto fence = std::make_shared<test::HostFence>();
  StreamUse second = world.end_epoch(kB, fence);
  CHECK(second.epoch > first.epoch);
  StreamClocks::Milestone milestone = world.clocks.milestone_for(first);
  CHECK(milestone.fence == fence);
  CHECK(milestone.use == second);
  world.clocks.note_passed(second);
  world.clocks.check_invariants();
  CHECK(world.clocks.passed(first));
  CHECK(world.clocks.passed(second));
  CHECK_FALSE(world.clocks.passed({kB, world.clocks.open(kB)}));
  CHECK_FALSE(world.clocks.has_milestone(kB));
  CHECK(world.clocks.milestones().empty());
}

TEST_CASE("the earliest fence that covers a use is taken, also when recorded late") {
  World world;
  StreamUse first{kB, world.clocks.close(kB)};
  StreamUse second{kB, world.clocks.close(kB)};
  auto fence_two = std::make_shared<test::HostFence>();
  auto fence_one = std::make_shared<test::HostFence>();
  world.clocks.add_fence(second, fence_two);
  world.clocks.add_fence(first, fence_one);
  world.clocks.check_invariants();
  CHECK(world.clocks.milestone_for(first).fence == fence_one);
  CHECK(world.clocks.milestone_for(second).fence == fence_two);
  CHECK(world.clocks.milestone_for({kB, world.clocks.open(kB)}).fence == nullptr);
  CHECK(world.clocks.milestones().size() == 2);
  world.clocks.note_passed(second);
  CHECK(world.clocks.milestones().empty());
  world.clocks.add_fence(first, fence_one);  // of an epoch that is known to have passed
  CHECK(world.clocks.milestones().empty());
}

TEST_CASE("a stream is ordered after its own work, what has passed, and what it waited for") {
  World world;
  StreamUse use{kA, world.clocks.open(kA)};
  CHECK(world.clocks.ordered(kA, use));
  CHECK_FALSE(world.clocks.ordered(kB, use));
  StreamUse closed = world.end_epoch(kA, std::make_shared<test::HostFence>());
  world.clocks.note_waited(kB, closed);
  CHECK(world.clocks.ordered(kB, use));
  CHECK_FALSE(world.clocks.ordered(kC, use));
  CHECK_FALSE(world.clocks.ordered(kB, {kA, world.clocks.open(kA)}));
  world.clocks.note_waited(kB, {kA, 0});  // an earlier wait takes nothing back
  CHECK(world.clocks.ordered(kB, use));
  world.clocks.note_passed(closed);
  CHECK(world.clocks.ordered(kC, use));
}

TEST_CASE("a fence of an epoch that is still open is the caller's bug") {
  World world;
  StreamUse open{kB, world.clocks.open(kB)};
  CHECK(test::dies([&] { world.clocks.add_fence(open, std::make_shared<test::HostFence>()); }));
}

}  // namespace
}  // namespace tidepool
