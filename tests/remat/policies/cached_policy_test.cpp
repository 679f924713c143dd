#include "remat/policies/cached_policy.h"

#include <vector>

#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

using remat::Storage;

constexpr const char* kNames[] = {"needed-cost", "dtr", "msps"};

// check() compares every cached cost with a walk from nothing, which makes later changes walk
// anew: so some jobs are checked rarely.
TEST_CASE("cached costs stay exact through random changes") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    test::Random random(seed);
    LineageBuilder built(kNames[seed % std::size(kNames)]);
    std::vector<Storage*> all{built.root()};
    for (int step = 0; step < 120; ++step) {
      const size_t at = random.below(all.size());
      Storage* storage = all[at];
      switch (random.below(5)) {
        case 0:
        case 1: {
          Storage* other = all[random.below(all.size())];
          if (storage->evicted || other->evicted) break;
          for (Storage* made : built.results({storage, other}, 1 + random.below(2), 1 + step)) {
            all.push_back(made);
          }
          break;
        }
        case 2:
          built.evict(storage);
          break;
        case 3:
          if (storage->evicted) built.install(storage);
          break;
        default:
          if (all.size() < 2) break;
          all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
          built.die(storage);
          break;
      }
      for (Storage* each : all) {
        if (each->evicted || each->current->producer == nullptr) continue;
        if (random.chance(50)) built.cost(each);
      }
      if (seed % 2 == 0 || step % 20 == 19) built.check();
      if (random.chance(20)) built.policy->begin_search();
    }
  }
  SUCCEED();
}

TEST_CASE("without searches, changes give the caches up and cost no walks") {
  LineageBuilder built;
  Storage* a = built.result({built.root()}, 1);
  Storage* b = built.result({a}, 10);
  CHECK(built.cost(b) == 10);
  for (int k = 0; k < 3000; ++k) {
    built.evict(a);
    built.install(a);
  }
  built.evict(a);
  CHECK(built.cost(b) == 11);
  built.check();
}

}  // namespace
}  // namespace tidepool
