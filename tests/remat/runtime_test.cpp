#include "remat/runtime.h"

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "remat/policies/table/policy_table.h"
#include "remat/simulate/memory/comparison_strategy.h"
#include "tests/support/catch.h"
#include "tests/support/remat_fixture.h"

namespace tidepool {
namespace {

using remat::RootReason;
using Tensor = RematFixture::Tensor;

size_t root_bytes(RematFixture& job, RootReason reason) {
  return job.statistics().root_bytes[static_cast<size_t>(reason)];
}

TEST_CASE("an unknown policy is refused") {
  remat::RuntimeConfig config;
  config.policy = "oracle";
  CHECK_THROWS_AS(RematFixture(1 << 20, config), std::invalid_argument);
}

TEST_CASE("a storage is found by its address, until it is evicted or dies") {
  RematFixture job;
  Tensor x = job.input();
  Tensor a = job.pure({x});
  int elsewhere = 0;
  {
    DeviceLock lock(job.mutex);
    CHECK(job.runtime.find(a->address) == a->tracked);
    CHECK(job.runtime.find(&elsewhere) == nullptr);
  }
  const void* const before = a->address;
  CHECK(job.evict(a));
  CHECK(a->address == nullptr);
  {
    DeviceLock lock(job.mutex);
    CHECK(job.runtime.find(before) == nullptr);
  }
  CHECK(job.matches(a));
  job.drop(a);
  CHECK(job.statistics().storages == 1);
  void* untracked = job.allocator.allocate(64);
  job.runtime.free(untracked);
  CHECK(job.allocator.statistics().allocated_bytes == 512);
}

TEST_CASE("after the end of eviction everything is resident and stays") {
  RematFixture job;
  Tensor x = job.input();
  Tensor a = job.pure({x});
  Tensor b = job.pure({a});
  CHECK(job.evict(a));
  CHECK(job.evict(b));
  {
    DeviceLock lock(job.mutex);
    job.runtime.pause_evicting(lock);
  }
  CHECK(a->address != nullptr);
  CHECK(b->address != nullptr);
  CHECK(!job.evict(a));
  CHECK(job.matches(b));
}

TEST_CASE("settling restores what is evicted, and forgets how contents were made") {
  RematFixture job;
  Tensor x = job.input();
  Tensor a = job.pure({x});
  Tensor b = job.pure({a});
  CHECK(job.evict(a));
  CHECK(job.evict(b));
  Tensor c;
  {
    DeviceLock lock(job.mutex);
    job.runtime.begin_settling(lock);
  }
  CHECK(b->address != nullptr);
  CHECK(!job.evict(b));
  c = job.pure({b});  // by another thread, say, between the two
  {
    DeviceLock lock(job.mutex);
    job.runtime.end_settling();
  }
  for (const Tensor& tensor : {a, b, c}) CHECK(job.is_root(tensor));
  Tensor d = job.pure({c});
  CHECK(job.evict(d));
  CHECK(job.matches(d));
  job.check();
}

TEST_CASE("what is recorded while others settle is a root") {
  RematFixture job;
  Tensor x = job.input();
  Tensor y = job.input();  // stands for the result
  static const remat::RecordType kType{"call", [](void*) {}, false};
  remat::OperatorCall call(job.runtime);
  {
    DeviceLock lock(job.mutex);
    remat::Storage* result = job.framework.tracked(y);
    call.add(job.framework.tracked(x), remat::Access::kRead);
    CHECK(call.prepare(lock));
    call.begin_record(kType, 0, 1);
    job.runtime.begin_settling(lock);
    job.runtime.end_settling();
    call.finish(lock, {&result, 1}, 1);
  }
  CHECK(call.reason() == RootReason::kSettled);
  CHECK(job.is_root(y));
  job.check();
}

TEST_CASE("bytes die when the framework frees them, but for retained roots, which are counted") {
  RematFixture job;
  Tensor x = job.input();
  Tensor a = job.pure({x});
  CHECK(job.evict(a));
  CHECK(job.allocator.statistics().allocated_bytes == 512);
  job.drop(x);
  CHECK(job.allocator.statistics().allocated_bytes == 512);
  CHECK(job.statistics().retained_bytes == 512);
  CHECK(job.statistics().retained == 1);
  CHECK(job.matches(a));
  CHECK(job.statistics().retained_bytes == 0);
  CHECK(job.allocator.statistics().allocated_bytes == 512);
  CHECK(job.is_root(a));
  job.drop(a);
  CHECK(job.allocator.statistics().allocated_bytes == 0);
  job.check();
}

TEST_CASE("a retained root goes when the last that needed it dies evicted") {
  RematFixture job;
  Tensor x = job.input();
  Tensor a = job.pure({x});
  Tensor b = job.pure({x});
  CHECK(job.evict(a));
  job.drop(x);
  job.drop(a);
  Tensor y = job.pure({b});  // the next operator tidies up
  CHECK(job.statistics().retained_bytes == 0);
  CHECK(job.is_root(b));
  CHECK(job.matches(y));
}

TEST_CASE("an escaped storage stays, is cut off, and makes its readers roots") {
  RematFixture job;
  Tensor x = job.input();
  Tensor a = job.pure({x});
  Tensor b = job.pure({a});
  CHECK(job.evict(a));
  CHECK(job.evict(b));
  {
    DeviceLock lock(job.mutex);
    job.runtime.escape(job.framework.tracked(a), lock);
    job.runtime.escape(job.framework.tracked(a), lock);
  }
  CHECK(!a->evicted);
  CHECK(!job.evict(a));
  CHECK(job.statistics().escapes == 1);
  sim::SimulatedFramework::scribble(a, 77);  // unseen
  CHECK(b->evicted);
  CHECK(job.matches(b));  // from the old contents, which are made again
  CHECK(job.is_root(job.pure({a})));
  CHECK(root_bytes(job, RootReason::kEscaped) == 512);
  job.check();
}

TEST_CASE("what operators go on using escapes until the last of them lets it alone") {
  RematFixture job;
  Tensor a = job.pure({job.input()});
  remat::Storage* const storage = job.framework.tracked(a);
  const auto locked = [&](auto&& act) {
    DeviceLock lock(job.mutex);
    act(lock);
  };
  for (int user = 0; user < 2; ++user) {
    locked([&](DeviceLock& lock) { job.runtime.escape_for_a_while(storage, lock); });
    CHECK(job.is_root(a));
    CHECK(job.is_root(job.pure({a})));
  }
  CHECK(job.statistics().escapes == 1);
  sim::SimulatedFramework::scribble(a, 77);  // by one of them
  locked([&](DeviceLock&) { job.runtime.leave_alone(storage); });
  CHECK(job.is_root(job.pure({a})));
  locked([&](DeviceLock&) { job.runtime.leave_alone(storage); });
  Tensor b = job.pure({a});
  CHECK(!job.is_root(b));
  CHECK(job.evict(b));
  CHECK(job.matches(b));  // from what was written
  CHECK(job.matches(a));
  job.check();
}

TEST_CASE("a storage that escapes for good stays so, whoever lets it alone") {
  RematFixture job;
  Tensor a = job.pure({job.input()});
  remat::Storage* const storage = job.framework.tracked(a);
  DeviceLock lock(job.mutex);
  SECTION("afterwards") {
    job.runtime.escape_for_a_while(storage, lock);
    job.runtime.escape(storage, lock);
  }
  SECTION("before") {
    job.runtime.escape(storage, lock);
    job.runtime.escape_for_a_while(storage, lock);
  }
  SECTION("because there are more users than are counted") {
    for (int user = 0; user < 1 << 16; ++user) job.runtime.escape_for_a_while(storage, lock);
  }
  job.runtime.leave_alone(storage);
  CHECK(storage->escaped);
  lock.unlock();
  CHECK(job.is_root(job.pure({a})));
}

TEST_CASE("a cut gives a root with the reason, and readers of a root are made safe first") {
  RematFixture job;
  Tensor x = job.input();
  Tensor a = job.pure({x});
  CHECK(job.evict(a));
  {
    DeviceLock lock(job.mutex);
    remat::Storage* storage = job.framework.tracked(x);
    job.runtime.lock_storage(storage);
    job.runtime.cut(storage, RootReason::kRawWrite, lock);
    job.runtime.unlock_storage(storage);
  }
  CHECK(!a->evicted);
  CHECK(job.is_root(a));
  CHECK(job.value(x).reason == RootReason::kRawWrite);
  sim::SimulatedFramework::scribble(x, 5);
  CHECK(job.matches(a));
}

TEST_CASE("prices: barriers for what cannot go, more for what costs more or was used later") {
  RematFixture job;
  Tensor x = job.input();
  Tensor cheap = job.pure({x}, 64, 100);
  Tensor dear = job.pure({x}, 64, 1000);
  for (int k = 0; k < 20; ++k) job.drop(job.pure({x}, 8, 1000));
  DeviceLock lock(job.mutex);
  job.runtime.begin_search();
  CHECK(job.runtime.price(x->tracked).barrier);
  const Price low = job.runtime.price(cheap->tracked);
  const Price high = job.runtime.price(dear->tracked);
  CHECK(!low.barrier);
  CHECK(low.value < high.value);
  job.runtime.lock_storage(cheap->tracked);
  CHECK(job.runtime.price(cheap->tracked).barrier);
  CHECK(!job.runtime.evict(cheap->tracked));
  job.runtime.unlock_storage(cheap->tracked);
  cheap->tracked->last_access = dear->tracked->last_access + 15'000;
  CHECK(job.runtime.price(cheap->tracked).value > low.value);
}

TEST_CASE("while recording is off nothing gets lineage, and what has it keeps its contents") {
  RematFixture job;
  Tensor x = job.input();
  Tensor a = job.pure({x});
  Tensor b = job.pure({x});
  CHECK(job.evict(b));
  job.runtime.set_recording(false);
  CHECK(job.is_root(job.pure({b})));
  CHECK(job.matches(a));
  CHECK(job.matches(b));
  job.runtime.set_recording(true);
  CHECK(!job.is_root(job.pure({x})));
  job.check();
}

TEST_CASE("a forked child restores what it reads and evicts nothing") {
  RematFixture job(64 << 10);
  Tensor x = job.input();
  Tensor a = job.pure({x});
  CHECK(job.evict(a));
  job.allocator.become_forked_child();
  job.runtime.become_forked_child();
  CHECK(job.matches(a));
  CHECK(!job.evict(a));
  for (int k = 0; k < 40; ++k) job.pure({x}, 512);  // 160 KiB
  CHECK(job.statistics().evictions == 1);
  job.check();
}

TEST_CASE("chaos at allocations leaves what is locked alone") {
  remat::RuntimeConfig config;
  config.chaos = remat::Chaos::kAllocation;
  RematFixture job(1 << 20, config);
  Tensor x = job.input();
  Tensor a = job.pure({x});
  Tensor b = job.pure({a}, 64);
  job.update(b, {a});
  CHECK(job.matches(b));
  CHECK(job.matches(a));
  CHECK(job.statistics().evictions > 0);
}

TEST_CASE("the same program makes the same decisions") {
  auto run = [](const std::string& policy, uint64_t seed) {
    remat::RuntimeConfig config;
    config.policy = policy;
    config.seed = seed;
    RematFixture job(64 << 10, config);
    Tensor x = job.input();
    std::vector<Tensor> all{x};
    for (uint32_t k = 0; k < 200; ++k) {
      all.push_back(job.pure({all[k * 7 % all.size()], all[k * 13 % all.size()]}, 128, 1 + k % 17));
    }
    std::vector<bool> evicted;
    for (Tensor each : all) evicted.push_back(each->evicted);
    return evicted;
  };
  for (const std::string& policy : remat::policy_names()) {
    INFO(policy);
    const std::vector<bool> first = run(policy, 1);
    CHECK(first == run(policy, 1));
    CHECK((first == run(policy, 2)) == (policy != "random"));
    CHECK(std::count(first.begin(), first.end(), true) > 50);
  }
}

// Tensors a, b, c, d of 2, 4, 1 and 2 pages, made at costs of 30, 20, 1 and 4 us; an operator that
// reads d wants another page. Who of a, b and c goes?
TEST_CASE("one-by-one eviction takes what the policy's paper would") {
  const std::map<std::string, size_t> expected{
      {"lru", 0},        // a has waited longest: 25 us
      {"size", 1},       // b is the largest
      {"delta", 0},      // pages times staleness: 50, 20, 4
      {"msps", 2},       // cost by page: 15, 5, 1
      {"dtr-local", 2},  // that by staleness of 25, 5, 4 us: 0.6, 1, 0.25
      {"dtr", 2},       {"dtr-eq", 2}, {"needed-cost", 2}, {"coop", 2}, {"dte", 2}};
  for (const auto& [policy, victim] : expected) {
    INFO(policy);
    remat::RuntimeConfig config;
    config.policy = policy;
    remat::ComparisonStrategy loop({.evict_singly = true});
    RematFixture job(10 * 4096, config, &loop);
    constexpr uint32_t kPageWords = 4096 / 8;
    auto* x = job.input(kPageWords);
    std::vector<RematFixture::Tensor> made{
        job.pure({x}, 2 * kPageWords, 30'000), job.pure({x}, 4 * kPageWords, 20'000),
        job.pure({x}, kPageWords, 1000), job.pure({x}, 2 * kPageWords, 4000)};
    auto* more = job.pure({made[3]}, kPageWords, 10);
    for (size_t k = 0; k < made.size(); ++k) {
      INFO(k);
      CHECK(made[k]->evicted == (k == victim));
    }
    job.check();
    for (auto* tensor : made) job.drop(tensor);
    job.drop(more);
    job.drop(x);
  }
}

}  // namespace
}  // namespace tidepool
