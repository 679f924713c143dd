#include "remat/restore/write_behind.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "remat/tier/host_tier.h"
#include "tests/support/catch.h"
#include "tests/support/memory_tier.h"
#include "tests/support/remat_fixture.h"
#include "tests/support/simulated_copies.h"

namespace tidepool {
namespace {

using Tensor = RematFixture::Tensor;
constexpr uint32_t kPageWords = 4096 / 8;

// A job whose steps read its parameters one after the other, each by an operator of 400 ns. Two of
// them do not fit.
struct SteppingJob {
  explicit SteppingJob(const MemoryTier::Settings& settings = MemoryTier::beside(0.01))
      : job(7 * 4096, config_of("next-use"), nullptr, std::make_unique<MemoryTier>(settings)) {
    for (int k = 0; k < 8; ++k) {
      parameters.push_back(job.input(kPageWords));
      job.update(parameters.back());  // what no operator has seen stays
    }
  }

  void read(size_t parameter) { job.drop(job.pure({parameters[parameter]}, kPageWords, 400)); }
  void step() {
    for (size_t k = 0; k < parameters.size(); ++k) read(k);
    job.runtime.end_step();
  }
  uint64_t written_behind() { return job.statistics().written_behind_bytes; }

  RematFixture job;
  std::vector<Tensor> parameters;
};

TEST_CASE("what left in the last step is copied before it leaves in the next") {
  SteppingJob stepping;
  for (int k = 0; k < 4; ++k) stepping.step();
  const remat::RuntimeStatistics before = stepping.job.statistics();
  for (int k = 0; k < 4; ++k) stepping.step();
  const remat::RuntimeStatistics after = stepping.job.statistics();
  const uint64_t left = after.offloaded_bytes - before.offloaded_bytes;
  const uint64_t ahead = after.written_behind_bytes - before.written_behind_bytes;
  const uint64_t wasted = after.write_behind_wasted_bytes - before.write_behind_wasted_bytes;
  CHECK(left > 0);
  CHECK(ahead - wasted > left / 2);
  CHECK(after.tier.stored_bytes - before.tier.stored_bytes == left + wasted);
  for (Tensor parameter : stepping.parameters) CHECK(stepping.job.matches(parameter));
  stepping.job.check();
}

// As an optimizer's state is: it is used late in a step, and makes room early in the next one.
TEST_CASE("what leaves before a step has used it is copied in the step before") {
  SteppingJob stepping;
  const Tensor state = stepping.parameters.back();
  const auto make_much = [&] {
    stepping.job.drop(stepping.job.pure({stepping.parameters[0]}, 6 * kPageWords, 400));
  };
  const auto step = [&] {
    make_much();
    stepping.read(1), stepping.read(2);
    stepping.job.update(state);
    for (int k = 0; k < 3; ++k) stepping.read(2);
  };
  for (int k = 0; k < 5; ++k) step(), stepping.job.runtime.end_step();
  step();
  const remat::Storage& storage = *stepping.job.tracked(state);
  CHECK_FALSE(storage.evicted);
  CHECK(storage.current->copied);
  stepping.job.runtime.end_step();
  make_much();
  CHECK(storage.evicted);
  CHECK(stepping.job.matches(state));
  stepping.job.check();
}

TEST_CASE("nothing is copied ahead in a step that is another one than expected") {
  SteppingJob stepping;
  for (int k = 0; k < 4; ++k) stepping.step();
  stepping.job.drop(stepping.job.pure({stepping.parameters[3], stepping.parameters[4]}, 64, 400));
  const uint64_t before = stepping.written_behind();
  for (size_t k = 0; k < stepping.parameters.size(); ++k) stepping.read(k);
  CHECK(stepping.written_behind() == before);
  for (Tensor parameter : stepping.parameters) CHECK(stepping.job.matches(parameter));
  stepping.job.check();
}

TEST_CASE("what left in the steps of another runtime is copied ahead, too") {
  SteppingJob stepping;
  for (int k = 0; k < 4; ++k) stepping.step();
  for (const bool learns : {false, true}) {
    SteppingJob other;
    other.job.runtime.learn(stepping.job.runtime.step_history());
    if (learns) other.job.runtime.learn_departures(stepping.job.runtime);
    other.step();
    CHECK((other.written_behind() > 0) == learns);
    for (Tensor parameter : other.parameters) CHECK(other.job.matches(parameter));
    other.job.check();
  }
}

TEST_CASE("nothing is copied ahead where copies are waited for") {
  MemoryTier::Settings settings = MemoryTier::beside(0.01);
  settings.runs_beside = false;
  SteppingJob stepping(settings);
  for (int k = 0; k < 6; ++k) stepping.step();
  CHECK(stepping.job.statistics().offloads > 0);
  CHECK(stepping.written_behind() == 0);
}

TEST_CASE("contents that are written after their copy leave by another one") {
  SteppingJob stepping;
  for (int k = 0; k < 4; ++k) stepping.step();
  for (int k = 0; k < 6; ++k) {  // not as expected
    for (size_t parameter = 0; parameter < stepping.parameters.size(); ++parameter) {
      stepping.read(parameter);
      if (parameter % 3 == static_cast<size_t>(k % 3)) {
        stepping.job.update(stepping.parameters[(parameter + 5) % 8]);
      }
    }
    stepping.job.runtime.end_step();
    for (Tensor parameter : stepping.parameters) CHECK(stepping.job.matches(parameter));
    stepping.job.check();
  }
}

// A job on a stream of a device, with a tier in page-locked memory. The oracle of races knows of
// each use of bytes by the job and by copies.
struct World {  // outlives the job
  test::SimulatedCopies::World copies;
};
struct DeviceJob : World, RematFixture {
  DeviceJob()
      : RematFixture(5 * 4096, config_of("next-use"), nullptr,
                     std::make_unique<remat::HostTier>(
                         std::make_unique<test::SimulatedCopies>(World::copies), 1 << 20, 1000)) {
    allocator.set_stream_order(&copies.streams);
    framework.on_use = [this](StreamId stream, const void* address, size_t bytes) {
      copies.use(stream, address, bytes);
    };
  }
  void restore(Tensor tensor) {
    DeviceLock lock(mutex);
    remat::Storage* const storage = framework.tracked(tensor);
    runtime.call_context().restorer.restore({&storage, 1}, lock);
  }
};

TEST_CASE("a copy ahead reads its bytes before they are written, and their block is reused") {
  DeviceJob job;
  const Tensor input = job.input(kPageWords);
  const Tensor made = job.pure({input}, kPageWords, 1'000'000);
  REQUIRE(job.copy_ahead(made));
  SECTION("they are written in place") {
    job.update(made);
    CHECK_FALSE(job.value(made).copied);
    CHECK(job.matches(made));
  }
  SECTION("they leave, and others get their block") {
    const void* const block = made->address;
    REQUIRE(job.evict(made));
    std::vector<Tensor> others;
    for (int k = 0; k < 4; ++k) others.push_back(job.pure({input}, kPageWords, 100));
    CHECK(std::any_of(others.begin(), others.end(),
                      [&](Tensor other) { return other->address == block; }));
    CHECK(job.matches(made));
  }
  SECTION("they die, and others get their block") {
    const void* const block = made->address;
    job.drop(made);
    std::vector<Tensor> others;
    for (int k = 0; k < 4; ++k) others.push_back(job.pure({input}, kPageWords, 100));
    CHECK(std::any_of(others.begin(), others.end(),
                      [&](Tensor other) { return other->address == block; }));
  }
  SECTION("they are written unseen") {
    {
      DeviceLock lock(job.mutex);
      job.runtime.pause_evicting(lock);
    }
    job.copies.use(test::kJob, made->address, made->bytes());
  }
  CHECK(job.copies.race.empty());
  job.check();
}

TEST_CASE("a copy out that is refused leaves it to readers to wait for the copy in before it") {
  DeviceJob job;
  const Tensor input = job.input(kPageWords);
  REQUIRE(job.evict(input));
  job.restore(input);
  job.copies.refuses_order = true;
  const bool ahead = GENERATE(false, true);
  CHECK_FALSE((ahead ? job.copy_ahead(input) : job.evict(input)));
  job.copies.refuses_order = false;
  job.pure({input}, kPageWords, 100);
  CHECK(job.copies.race.empty());
  job.check();
}

TEST_CASE("an address that is handed out is used on any stream after the copies of its bytes") {
  DeviceJob job;
  const Tensor input = job.input(kPageWords);
  REQUIRE(job.evict(input));
  job.restore(input);
  {
    DeviceLock lock(job.mutex);
    job.allocator.use_so_far(test::kOther);
    job.runtime.cut(job.framework.tracked(input), remat::RootReason::kRawWrite, lock);
  }
  job.copies.use(test::kOther, input->address, input->bytes());
  CHECK(job.copies.race.empty());
  job.check();
}

}  // namespace
}  // namespace tidepool
