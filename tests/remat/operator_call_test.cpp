#include "remat/operator_call.h"

#include <thread>

#include "tests/support/catch.h"
#include "tests/support/remat_fixture.h"

namespace tidepool {
namespace {

using remat::Access;
using remat::OperatorCall;
using remat::RootReason;
using Tensor = RematFixture::Tensor;

TEST_CASE("results of recorded operators have lineage, depth and cost") {
  RematFixture job;
  Tensor x = job.input();
  Tensor a = job.pure({x}, 64, 123);
  Tensor b = job.pure({a, x});
  CHECK(job.is_root(x));
  CHECK(job.value(x).reason == RootReason::kUntracked);
  CHECK(job.value(a).producer->cost_ns == 123);
  CHECK(job.value(b).depth == 2);
  CHECK(job.statistics().operators_recorded == 2);
  CHECK(job.statistics().operators_seen == 2);
  job.check();
}

TEST_CASE("why results are roots") {
  RematFixture job;
  Tensor x = job.input();
  Tensor a = job.pure({x});
  CHECK(job.value(job.run({x}, {8}, 1, 0, false)[0]).reason == RootReason::kUnsupported);
  job.update(x);
  CHECK(job.value(x).reason == RootReason::kPartialWrite);
  {
    DeviceLock lock(job.mutex);
    job.runtime.escape(job.framework.tracked(a), lock);
  }
  CHECK(job.value(job.pure({a})).reason == RootReason::kUnstableInput);
  job.runtime.set_recording(false);
  CHECK(job.value(job.pure({x})).reason == RootReason::kRecordingOff);
  job.check();
}

TEST_CASE("an update makes a version whose predecessor stays restorable elsewhere") {
  RematFixture job;
  Tensor y = job.pure({job.input()});
  Tensor reader = job.pure({y});
  void* address = y->address;
  CHECK(job.evict(reader));
  job.update(y);
  CHECK(y->address == address);
  CHECK(reader->evicted);  // nothing had to be restored
  CHECK(!job.is_root(y));
  CHECK(job.value(y).producer->written_edge == 0);
  CHECK(job.matches(reader));
  CHECK(job.matches(y));
  job.check();
}

TEST_CASE("a full overwrite has no input, and gives a root lineage") {
  RematFixture job;
  Tensor x = job.input();
  Tensor reader = job.pure({x});
  CHECK(job.evict(reader));
  job.overwrite(x);
  CHECK(!reader->evicted);  // restored before the write
  CHECK(job.is_root(reader));
  CHECK(!job.is_root(x));
  CHECK(job.value(x).producer->edge_count == 0);
  CHECK(job.evict(x));
  CHECK(job.matches(x));
  CHECK(job.matches(reader));
  job.check();
}

TEST_CASE("updating a root restores what was evicted and makes its readers roots") {
  RematFixture job;
  Tensor x = job.input();
  Tensor a = job.pure({x});
  Tensor dead = job.pure({x});
  Tensor b = job.pure({dead});
  job.drop(dead);
  CHECK(job.evict(b));
  job.update(x);
  CHECK(job.value(a).reason == RootReason::kLostRoot);
  CHECK(job.value(b).reason == RootReason::kLostRoot);
  CHECK(job.statistics().records == 0);
  CHECK(job.matches(a));
  CHECK(job.matches(b));
  job.check();
}

TEST_CASE("a side write gives a root and is not repeated") {
  RematFixture job;
  Tensor x = job.input();
  Tensor statistics = job.input();
  Tensor y = job.run({x}, {64}, 10, 0, true, statistics)[0];
  CHECK(job.is_root(statistics));
  CHECK(!job.is_root(y));
  CHECK(job.evict(y));
  CHECK(job.matches(y));
  CHECK(job.matches(statistics));
}

TEST_CASE("an operator that throws midway leaves a root, and its old contents restorable") {
  RematFixture job;
  Tensor y = job.pure({job.input()});
  Tensor reader = job.pure({y});
  CHECK(job.evict(reader));
  CHECK_THROWS_AS(job.update(y, {}, true), sim::SimulatedFault);
  CHECK(job.is_root(y));
  CHECK(job.tracked(y)->locks == 0);
  CHECK(!job.tracked(y)->writing);
  CHECK(job.matches(y));
  CHECK(job.matches(reader));
  job.check();
}

TEST_CASE("an operator whose operands do not fit has not begun, and can be run again") {
  RematFixture job(16 << 10);
  Tensor x = job.input(8);
  Tensor a = job.pure({x}, 1000);
  CHECK(job.evict(a));
  Tensor pinned = job.input(1100);
  CHECK_THROWS_AS(job.update(a), OutOfMemory);
  CHECK(job.tracked(a)->locks == 0);
  CHECK(!job.is_root(a));
  job.check();
  job.drop(pinned);
  job.update(a);
  CHECK(job.matches(a));
}

TEST_CASE("an input that is written while the kernel runs makes the result a root") {
  RematFixture job;
  Tensor x = job.input();
  Tensor y = job.pure({x});
  // What was there can be made again, but the kernel may have read the new bytes.
  const auto reasons = job.reasons_if({y}, [&] { job.update(y); });
  CHECK(reasons.result == RootReason::kLostInput);
  CHECK(job.evict(y));
  CHECK(job.matches(y));
  job.check();
}

TEST_CASE("what two threads write into one tensor at once can only be kept") {
  for (const bool is_recorded : {true, false}) {
    RematFixture job;
    const Tensor x = job.input();
    const Tensor y = job.pure({x});
    remat::OperatorCall call(job.runtime);
    static const remat::RecordType type{"test::part", nullptr};
    {
      DeviceLock lock(job.mutex);
      call.add(job.framework.tracked(y), remat::Access::kUpdate);
      if (!is_recorded) call.refuse(RootReason::kUnsupported);
      CHECK(call.prepare(lock) == is_recorded);
      if (is_recorded) call.begin_record(type, 0, 1);
    }
    std::thread([&] { job.update(y); }).join();
    CHECK(job.is_root(y));
    CHECK(job.tracked(y)->writing);
    {
      DeviceLock lock(job.mutex);
      call.finish(lock, {}, 1);
    }
    CHECK(job.is_root(y));
    CHECK_FALSE(job.tracked(y)->writing);
    CHECK_FALSE(job.evict(y));
    job.update(job.pure({y}));
    job.check();
  }
}

TEST_CASE("an input that is lost while the kernel runs makes the result a root") {
  RematFixture job;
  Tensor x = job.input();
  Tensor y = job.pure({x});
  const auto reasons = job.reasons_if({x, y}, [&] { job.framework.replace_bytes(x, 5); });
  CHECK(reasons.call == RootReason::kLostInput);
  CHECK(reasons.result == RootReason::kLostInput);
  job.check();
}

// Found by the simulator: a root retained for `reader` was released while `y`, which depends on it,
// was being written, and took with it what evicted readers of the old contents needed.
TEST_CASE("contents that are being overwritten are not what readers may fall back on") {
  RematFixture job;
  Tensor x = job.input();
  Tensor other = job.pure({x});
  Tensor y = job.pure({x});
  Tensor reader = job.pure({y});
  CHECK(job.evict(other));
  CHECK(job.evict(reader));
  job.drop(x);  // retained
  CHECK(job.matches(other));
  {
    OperatorCall call(job.runtime);
    {
      DeviceLock lock(job.mutex);
      call.add(job.framework.tracked(y), Access::kSideWrite);
      REQUIRE(call.prepare(lock));
      job.runtime.give_up_or_wait(lock);  // looks for retained roots to release
    }
    job.framework.scribble(y, 9);
    DeviceLock lock(job.mutex);
    call.finish(lock, {}, 1);
  }
  job.check();
  CHECK(job.matches(reader));
  CHECK(job.matches(y));
}

TEST_CASE("chaos after every operator takes what may be taken") {
  remat::RuntimeConfig config;
  config.chaos = remat::Chaos::kOperator;
  RematFixture job(1 << 20, config);
  Tensor x = job.input();
  Tensor a = job.pure({x});
  Tensor b = job.pure({a});
  CHECK(a->evicted);
  CHECK(b->evicted);
  CHECK(!x->evicted);
  CHECK(job.matches(b));
  CHECK(job.matches(a));
}

TEST_CASE("a call that writes many operands looks a few times at each, whatever protects them") {
  constexpr size_t kOperands = 300;
  const bool evicted = GENERATE(false, true);
  RematFixture job(4 << 20);
  RematFixture::Tensors written;
  RematFixture::Tensors readers;
  for (size_t k = 0; k < kOperands; ++k) {
    written.push_back(job.input());
    readers.push_back(job.pure({written.back()}));
    if (evicted) CHECK(job.evict(readers.back()));
  }
  {
    OperatorCall call(job.runtime);
    DeviceLock lock(job.mutex);
    for (Tensor tensor : written) call.add(job.framework.tracked(tensor), Access::kUpdate);
    CHECK(!call.prepare(lock));
    for (Tensor tensor : readers) CHECK(!job.framework.tracked(tensor)->evicted);
    for (Tensor tensor : written) {
      CHECK(job.framework.tracked(tensor)->current->consumers == nullptr);
    }
  }
  CHECK(job.statistics().operand_checks == 2 * kOperands);  // once to protect, once to see that
  for (Tensor tensor : readers) CHECK(job.matches(tensor));
  job.check();
}

}  // namespace
}  // namespace tidepool
