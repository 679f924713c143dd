#include "remat/lineage/content_watch.h"

#include <memory>

#include "tests/support/catch.h"
#include "tests/support/memory_tier.h"
#include "tests/support/remat_fixture.h"

namespace tidepool::remat {
namespace {

using Catch::Matchers::ContainsSubstring;
using Tensor = RematFixture::Tensor;
using sim::SimulatedFramework;

RuntimeConfig config_without_raw_writes() {
  RuntimeConfig config;
  config.notices_raw_writes = false;
  return config;
}

TEST_CASE("what was made before contents were written unseen stays, once an operator reads them") {
  RematFixture job(1 << 20, config_without_raw_writes());
  Tensor x = job.input();
  Tensor before = job.pure({x});
  SimulatedFramework::scribble(x, 5);
  Tensor after = job.pure({x});
  CHECK(job.statistics().unseen_writes == 1);
  CHECK(job.is_root(before));
  CHECK(!job.evict(before));
  CHECK(job.evict(after));
  CHECK(job.statistics().evictions == 1);
  job.check();
}

TEST_CASE("what was evicted before contents were written unseen cannot be restored, and says so") {
  RematFixture job(1 << 20, config_without_raw_writes());
  Tensor x = job.input();
  Tensor a = job.pure({x});
  Tensor b = job.pure({a});
  for (const bool is_noticed_by_a_reader : {false, true}) {
    CHECK((a->evicted || job.evict(a)));
    CHECK((b->evicted || job.evict(b)));
    SimulatedFramework::scribble(x, is_noticed_by_a_reader ? 5 : 6);
    if (is_noticed_by_a_reader) job.pure({x});
    DeviceLock lock(job.mutex);
    job.runtime.lock_storage(b->tracked);
    CHECK_THROWS_WITH(job.runtime.make_resident({&b->tracked, 1}, lock),
                      ContainsSubstring("written since then"));
    job.runtime.unlock_storage(b->tracked);
  }
  job.check();
}

TEST_CASE("contents that were written unseen stand for nothing once their tensor is gone") {
  RematFixture job(1 << 20, config_without_raw_writes());
  const Tensor x = job.input();
  const Tensor away = job.pure({x});
  const Tensor here = job.pure({x});
  CHECK(job.evict(away));
  SimulatedFramework::scribble(x, 5);
  job.drop(x);
  CHECK(job.statistics().unseen_writes == 1);
  CHECK(job.statistics().retained_bytes == 0);
  CHECK_FALSE(job.evict(here));
  CHECK_THROWS_WITH(job.matches(away), ContainsSubstring("written since then"));
  job.check();
}

TEST_CASE("contents that were written unseen are not copied, which would hide it") {
  RematFixture job(1 << 20, config_without_raw_writes(), nullptr,
                   std::make_unique<MemoryTier>(MemoryTier::Settings{}));
  const Tensor x = job.input();
  const Tensor y = job.pure({x});
  CHECK(job.evict(y));
  SimulatedFramework::scribble(x, 5);
  CHECK_FALSE(job.evict(x));
  CHECK_THROWS_WITH(job.matches(y), ContainsSubstring("written since then"));
}

TEST_CASE("contents whose address was handed out are watched where raw accesses are noticed") {
  RematFixture job;
  Tensor x = job.input();
  Tensor y = job.input();
  job.tracked(x)->fixed = true;
  job.pure({x, y});
  SimulatedFramework::scribble(x, 5);
  SimulatedFramework::scribble(y, 6);
  job.pure({x, y});
  CHECK(job.statistics().unseen_writes == 1);
}

TEST_CASE("a write that is announced is none that was unseen") {
  RematFixture job(1 << 20, config_without_raw_writes());
  Tensor x = job.input();
  Tensor a = job.pure({x});
  CHECK(job.evict(a));
  job.update(x);
  Tensor b = job.pure({x});
  CHECK(job.evict(b));
  job.overwrite(x);
  CHECK(job.matches(a));
  CHECK(job.matches(b));
  CHECK(job.statistics().unseen_writes == 0);
  job.check();
}

TEST_CASE("long contents are sampled until they were once written unseen, then compared whole") {
  RematFixture job(1 << 20, config_without_raw_writes());
  constexpr uint32_t kWords = 4096;
  Tensor x = job.input(kWords);
  job.pure({x});
  auto* const words = static_cast<uint64_t*>(x->address);
  ++words[kWords / 2 + 1];
  job.pure({x});
  CHECK(job.statistics().unseen_writes == 0);  // documented: a few elements are not noticed
  for (uint32_t k = 0; k < kWords; ++k) ++words[k];
  job.pure({x});
  CHECK(job.statistics().unseen_writes == 1);
  ++words[kWords / 2 + 1];
  job.pure({x});
  CHECK(job.statistics().unseen_writes == 2);
  job.check();
}

TEST_CASE("a write that meets contents written unseen asks for nothing that they would spoil") {
  RematFixture job(1 << 20, config_without_raw_writes());
  Tensor x = job.input();
  Tensor a = job.pure({x});
  CHECK(job.evict(a));
  SimulatedFramework::scribble(x, 5);
  job.update(x);  // else it would restore `a` before, and fail
  CHECK(job.statistics().unseen_writes == 1);
  CHECK(a->evicted);
  job.check();
}

}  // namespace
}  // namespace tidepool::remat
