#include "remat/policies/needed_cost.h"

#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"

namespace tidepool {
namespace {

using remat::Storage;

TEST_CASE("a price follows own cost, evicted ancestors and needed descendants") {
  LineageBuilder built;
  Storage* a = built.result({built.root()}, 1);
  Storage* b = built.result({a}, 10);
  Storage* c = built.result({b}, 100);
  CHECK(built.cost(b) == 10);
  built.evict(a);
  CHECK(built.cost(b) == 11);
  built.evict(c);
  CHECK(built.cost(b) == 111);
  built.die(c);
  CHECK(built.cost(b) == 11);
  built.install(a);
  CHECK(built.cost(b) == 10);
  CHECK(built.cost(a) == 1);
}

TEST_CASE("what turns out to be dying when it is restored is needed no more") {
  LineageBuilder built;
  Storage* a = built.result({built.root()}, 1);
  Storage* b = built.result({a}, 10);
  built.evict(b);
  CHECK(built.cost(a) == 11);
  built.refuse = true;
  CHECK(!built.install(b));
  CHECK(built.cost(a) == 1);
  built.check();
}

TEST_CASE("each record counts once, whatever of its outputs is gone") {
  LineageBuilder built;
  Storage* a = built.result({built.root()}, 1);
  auto pair = built.results({a}, 2, 10);
  Storage* below = built.result({pair[0], pair[1]}, 100);
  built.evict(pair[0]);
  built.evict(pair[1]);
  CHECK(built.cost(a) == 1 + 10);
  CHECK(built.cost(below) == 100 + 10);
}

}  // namespace
}  // namespace tidepool
