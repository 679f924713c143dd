#include "remat/residency/copies.h"

#include <memory>
#include <string_view>
#include <vector>

#include "remat/restore/restoration_plan.h"
#include "tests/support/catch.h"
#include "tests/support/memory_tier.h"
#include "tests/support/remat_fixture.h"

namespace tidepool {
namespace {

using Tensor = RematFixture::Tensor;

// A job with a tier; the log has what was stored.
struct OffloadingJob {
  explicit OffloadingJob(double ns_per_byte = 0.001, size_t budget_bytes = 1 << 20,
                         MemoryTier::Settings settings = {},
                         const remat::RuntimeConfig& config = {})
      : job(budget_bytes, config, nullptr, make_tier(ns_per_byte, settings)) {}

  std::unique_ptr<MemoryTier> make_tier(double ns_per_byte, MemoryTier::Settings settings) {
    settings.ns_per_byte = ns_per_byte;
    settings.log = &stored;
    return std::make_unique<MemoryTier>(settings);
  }

  std::vector<uint64_t> stored;
  RematFixture job;
};

TEST_CASE("what has no lineage leaves by a copy, and comes back from it") {
  OffloadingJob offloading;
  RematFixture& job = offloading.job;
  const Tensor input = job.input();
  CHECK(job.evict(input));
  CHECK(job.value(input).copied);
  CHECK(job.matches(input));
  CHECK(job.statistics().offloads == 1);
  CHECK(job.statistics().fetches == 1);
  SECTION("what has not changed since leaves for nothing") {
    CHECK(job.evict(input));
    CHECK(offloading.stored.size() == 1);
    CHECK(job.matches(input));
  }
  SECTION("a write makes the copy invalid") {
    job.update(input);
    CHECK_FALSE(job.value(input).copied);
    CHECK(job.evict(input));
    CHECK(offloading.stored.size() == 2);
    CHECK(job.matches(input));
  }
  SECTION("an announced write from outside does, too") {
    {
      DeviceLock lock(job.mutex);
      remat::Storage* const storage = job.framework.tracked(input);
      job.runtime.cut(storage, remat::RootReason::kRawWrite, lock);
    }
    CHECK_FALSE(job.value(input).copied);
  }
  SECTION("and so does one that nobody has seen") {
    input->words()[3] ^= 1;
    input->expected[3] ^= 1;
    CHECK(job.evict(input));
    CHECK(offloading.stored.size() == 2);
    CHECK(job.matches(input));
  }
  job.check();
}

TEST_CASE("what was copied ahead leaves for nothing, unless it was written") {
  OffloadingJob offloading(0.001, 1 << 20, MemoryTier::beside(0.001));
  RematFixture& job = offloading.job;
  const Tensor input = job.input();
  const Tensor made = job.pure({input}, 64, 1'000'000);
  REQUIRE(job.copy_ahead(input));
  CHECK_FALSE(job.copy_ahead(input));  // it has a copy
  REQUIRE(job.copy_ahead(made));
  CHECK_FALSE(input->evicted);
  CHECK(offloading.stored.size() == 2);
  CHECK(job.statistics().written_behind_bytes == 1024);
  job.check();
  SECTION("when its room is wanted") {
    CHECK(job.evict(input));
    CHECK(job.evict(made));
    CHECK(offloading.stored.size() == 2);
    CHECK(job.statistics().offloads == 2);
    CHECK(job.matches(input));
    CHECK(job.matches(made));
    CHECK(job.statistics().operators_replayed == 0);
    CHECK(job.statistics().write_behind_wasted_bytes == 0);
  }
  SECTION("a write makes the copy invalid") {
    job.update(input);
    CHECK_FALSE(job.value(input).copied);
    CHECK(job.statistics().write_behind_wasted_bytes == 0);  // of the old contents `made` was made
    CHECK(job.evict(input));
    CHECK(offloading.stored.size() == 3);
    CHECK(job.evict(made));
    CHECK(job.matches(input));
    CHECK(job.matches(made));
  }
  SECTION("what may be written unseen needs another copy") {
    {
      DeviceLock lock(job.mutex);
      job.runtime.pause_evicting(lock);
    }
    CHECK_FALSE(job.value(input).copied);
    CHECK_FALSE(job.copy_ahead(input));
    CHECK(job.statistics().write_behind_wasted_bytes == 1024);
    input->words()[3] ^= 1;
    input->expected[3] ^= 1;
    {
      DeviceLock lock(job.mutex);
      job.runtime.resume_evicting();
    }
    CHECK(job.evict(input));
    CHECK(offloading.stored.size() == 3);
    CHECK(job.matches(input));
  }
  SECTION("what dies before was copied in vain") {
    job.drop(made);
    CHECK(job.statistics().write_behind_wasted_bytes == 512);
    CHECK(job.statistics().tier.held_bytes == 512);
  }
  job.check();
}

// Old contents have no bytes any more but their copy, as if they had left by it.
TEST_CASE("a copy made ahead stands for contents that were written or died since") {
  MemoryTier::Settings settings = MemoryTier::beside(0.5);
  settings.capacity = 1024;
  OffloadingJob offloading(0.5, 1 << 20, settings);
  RematFixture& job = offloading.job;
  const Tensor input = job.input();
  const Tensor made = job.pure({input}, 64, 1);
  REQUIRE(job.copy_ahead(input));
  const bool is_evicted = GENERATE(true, false);
  if (is_evicted) {
    REQUIRE(job.evict(made));
    REQUIRE_FALSE(job.value(made).copied);
  }
  const char* const end = GENERATE("written", "written by a call that fails", "died");
  CAPTURE(is_evicted, end);
  if (end == std::string_view("written")) {
    job.update(input);
  } else if (end == std::string_view("died")) {
    job.drop(input);
  } else {
    CHECK_THROWS_AS(job.update(input, {}, true), sim::SimulatedFault);
  }
  job.check();
  SECTION("where bytes may be written unseen") {
    DeviceLock lock(job.mutex);
    job.runtime.pause_evicting(lock);
    job.runtime.resume_evicting();
  }
  SECTION("where room is wanted in the tier") {
    const Tensor other = job.input(128);
    job.evict(other);
    CHECK(job.matches(other));
  }
  job.evict(made);
  CHECK(job.matches(made));
  job.check();
}

TEST_CASE("what may be written unseen at any time is not copied ahead") {
  remat::RuntimeConfig config;
  config.notices_raw_writes = false;
  OffloadingJob offloading(0.001, 1 << 20, MemoryTier::beside(0.001), config);
  RematFixture& job = offloading.job;
  const Tensor input = job.input();
  CHECK_FALSE(job.copy_ahead(input));
  const Tensor made = job.pure({input}, 64, 1'000'000);
  CHECK(job.copy_ahead(made));
  job.update(input);
  REQUIRE(job.value(made).producer == nullptr);
  for (const Tensor& root : {input, made}) {
    CHECK_FALSE(job.value(root).copied);
    root->words()[3] ^= 1;
    root->expected[3] ^= 1;
    CHECK(job.evict(root));
    CHECK(job.matches(root));
  }
  job.check();
}

TEST_CASE("copies ahead take no room from what has to leave") {
  MemoryTier::Settings settings = MemoryTier::beside(0.001);
  settings.capacity = 1024;
  OffloadingJob offloading(0.001, 1 << 20, settings);
  RematFixture& job = offloading.job;
  RematFixture::Tensors inputs;
  for (int k = 0; k < 3; ++k) inputs.push_back(job.input());
  REQUIRE(job.copy_ahead(inputs[0]));
  REQUIRE(job.copy_ahead(inputs[1]));
  CHECK_FALSE(job.copy_ahead(inputs[2]));
  CHECK(job.evict(inputs[2]));
  CHECK(job.value(inputs[0]).copied);  // what was copied last gives way
  CHECK_FALSE(job.value(inputs[1]).copied);
  CHECK(job.evict(inputs[0]));
  CHECK_FALSE(job.evict(inputs[1]));  // what has left stays
  for (const Tensor input : inputs) CHECK(job.matches(input));
  CHECK(job.statistics().tier.peak_bytes <= settings.capacity);
  job.check();
}

TEST_CASE("a copy that would be waited for is not made ahead") {
  OffloadingJob offloading;
  CHECK_FALSE(offloading.job.copy_ahead(offloading.job.input()));
  offloading.job.check();
}

TEST_CASE("the cheaper of forgetting and copying is taken") {
  const bool dear = GENERATE(false, true);
  OffloadingJob offloading(dear ? 100 : 0.001);
  RematFixture& job = offloading.job;
  const Tensor made = job.pure({job.input()}, 64, 100);
  CHECK(job.evict(made));
  CHECK(job.value(made).copied != dear);
  CHECK(job.matches(made));
  CHECK(job.statistics().operators_replayed == (dear ? 1 : 0));
  job.check();
}

TEST_CASE("a replay reads copies, and the dead root that it needs stays in the tier alone") {
  OffloadingJob offloading(0.5);
  RematFixture& job = offloading.job;
  const Tensor input = job.input();
  const Tensor made = job.pure({input}, 64, 1);
  const Tensor more = job.pure({made}, 64, 1);
  CHECK(job.evict(input));
  CHECK(job.evict(made));
  CHECK(job.evict(more));
  CHECK_FALSE(job.value(more).copied);
  job.drop(input);
  CHECK(job.statistics().retained_bytes == 0);
  CHECK(job.statistics().tier.held_bytes > 0);
  CHECK(job.matches(more));
  CHECK(job.statistics().operators_replayed == 2);
  CHECK(job.statistics().fetches == 1);
  job.drop(made);
  job.drop(more);
  CHECK(job.statistics().tier.held_bytes == 0);
  job.check();
}

TEST_CASE("a copy that is given up before a plan has come to it is not loaded") {
  OffloadingJob offloading;
  RematFixture& job = offloading.job;
  const Tensor made = job.pure({job.input()}, 64, 1'000'000);
  CHECK(job.evict(made));
  remat::Value& value = job.value(made);
  REQUIRE(value.copied);
  {
    DeviceLock lock(job.mutex);
    remat::Contents& contents = job.runtime.call_context().contents;
    remat::RestorationPlan plan(contents, remat::RestorationPlan::Mode::kLean);
    plan.add(value);
    CHECK(plan.next_is_ready());
    contents.residency.copies.drop(value);
    CHECK_FALSE(plan.next_is_ready());
  }
  CHECK(job.matches(made));
  job.check();
}

TEST_CASE("a write to contents in the tier leaves the old ones to those that need them") {
  OffloadingJob offloading(0.5);
  RematFixture& job = offloading.job;
  const Tensor input = job.input();
  const Tensor made = job.pure({input}, 64, 1);
  CHECK(job.evict(made));
  CHECK(job.evict(input));
  job.update(input);
  CHECK(job.statistics().operators_replayed == 0);  // nothing had to be restored for the write
  CHECK(job.matches(input));
  CHECK(job.matches(made));
  job.check();
}

TEST_CASE("an input that another thread writes meanwhile is lost, though there is a copy of it") {
  OffloadingJob offloading;
  RematFixture& job = offloading.job;
  const Tensor input = job.input();
  CHECK(job.evict(input));
  CHECK(job.matches(input));
  CHECK(job.value(input).copied);
  // The bytes that are read may be the new ones, or some of these.
  const auto reasons = job.reasons_if({input}, [&] { job.update(input); });
  CHECK(reasons.result == remat::RootReason::kLostInput);
  job.check();
}

TEST_CASE("a copy that an unseen write has left behind stands for nothing") {
  OffloadingJob offloading(0.5);
  RematFixture& job = offloading.job;
  const Tensor input = job.input();
  CHECK(job.evict(input));
  CHECK(job.matches(input));
  input->words()[3] ^= 1;
  input->expected[3] ^= 1;
  const Tensor made = job.pure({input}, 64, 1);  // of the new bytes
  CHECK(job.evict(made));
  SECTION("when the contents are written") { job.update(input); }
  SECTION("when they die") { job.drop(input); }
  CHECK(job.matches(made));
  job.check();
}

TEST_CASE("a tier without room is no way out") {
  MemoryTier::Settings settings;
  settings.capacity = 64 * sizeof(uint64_t);
  OffloadingJob offloading(0.001, 1 << 20, settings);
  RematFixture& job = offloading.job;
  const Tensor first = job.input();
  const Tensor second = job.input();
  const bool one = job.evict(first);
  const bool other = job.evict(second);
  CHECK((one && !other));
  CHECK(job.matches(first));
  CHECK(job.matches(second));
  job.check();
}

TEST_CASE("a job whose inputs exceed the budget runs") {
  constexpr size_t kBudget = 32 * 4096;
  OffloadingJob offloading(0.01, kBudget);
  RematFixture& job = offloading.job;
  RematFixture::Tensors inputs;
  for (int k = 0; k < 20; ++k) {
    inputs.push_back(job.input(2048));  // 16 KiB each
    job.update(inputs.back());          // what no operator has seen stays
  }
  for (int round = 0; round < 3; ++round) {
    for (const Tensor input : inputs) job.update(input);
  }
  for (const Tensor input : inputs) CHECK(job.matches(input));
  CHECK(job.statistics().offloads > 40);
  job.check();
}

TEST_CASE("copies that cannot be read back are an error, and nothing else is lost") {
  MemoryTier::Settings settings;
  settings.fail_load_at = 1;
  OffloadingJob offloading(0.001, 1 << 20, settings);
  RematFixture& job = offloading.job;
  const Tensor input = job.input();
  CHECK(job.evict(input));
  CHECK_THROWS_WITH(job.matches(input),
                    "a fault of the test (a tensor that cannot be computed again)");
  CHECK(job.matches(input));  // the fault was for once
  job.check();
}

// A copy of 512 bytes takes 1 + 49 ns each way.
TEST_CASE("delta copies what takes no longer to copy than its operator took") {
  OffloadingJob offloading(49.0 / 512, 1 << 20, {}, config_of("delta"));
  RematFixture& job = offloading.job;
  const Tensor input = job.input();
  const Tensor before = job.pure({input}, 64, 1'000'000);
  const Tensor cheap = job.pure({before}, 64, 99);
  const Tensor dear = job.pure({input}, 64, 100);
  CHECK(job.evict(before));
  CHECK(job.evict(cheap));
  CHECK(job.evict(dear));
  CHECK(job.value(before).copied);
  CHECK_FALSE(job.value(cheap).copied);  // whatever is evicted around it
  CHECK(job.value(dear).copied);
  CHECK(job.matches(cheap));
  CHECK(job.statistics().operators_replayed == 1);
  CHECK(job.matches(dear));
  CHECK(job.matches(before));
  CHECK(job.statistics().fetches == 2);
  job.check();
}

TEST_CASE("delta lets contents without lineage go where nothing else makes room") {
  constexpr size_t kBudget = 8 * 4096;
  constexpr uint32_t kWords = 3 * 4096 / 8;
  OffloadingJob offloading(0.001, kBudget, {}, config_of("delta"));
  RematFixture& job = offloading.job;
  const Tensor input = job.input(kWords);
  const Tensor made = job.pure({input}, kWords, 100);
  const Tensor more = job.pure({input}, kWords, 100);  // wants two pages
  CHECK(made->evicted);
  job.drop(made);
  const Tensor next = job.pure({more}, kWords, 100);
  CHECK(input->evicted);
  CHECK_FALSE(more->evicted);
  CHECK(job.matches(input));
  CHECK(job.matches(next));
  job.check();
}

TEST_CASE("delta forgets what finds no room in the tier") {
  MemoryTier::Settings settings;
  settings.capacity = 512;
  OffloadingJob offloading(0.001, 1 << 20, settings, config_of("delta"));
  RematFixture& job = offloading.job;
  const Tensor input = job.input();
  const Tensor made = job.pure({input}, 64, 100);
  CHECK(job.evict(input));
  CHECK(job.evict(made));
  CHECK(job.value(input).copied);
  CHECK_FALSE(job.value(made).copied);
  CHECK(job.matches(made));
  CHECK(job.statistics().operators_replayed == 1);
  job.check();
}

TEST_CASE("a policy that does not price time does not go with a tier") {
  remat::RuntimeConfig config;
  config.policy = "dtr";
  CHECK_THROWS_AS(
      RematFixture(1 << 20, config, nullptr, std::make_unique<MemoryTier>(MemoryTier::Settings())),
      std::invalid_argument);
}

}  // namespace
}  // namespace tidepool
