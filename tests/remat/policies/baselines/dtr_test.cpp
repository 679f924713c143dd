#include "remat/policies/baselines/dtr.h"

#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"

namespace tidepool {
namespace {

using remat::Storage;

TEST_CASE("every unavailable value nearby counts, second outputs of a record included") {
  LineageBuilder built("dtr");
  Storage* a = built.result({built.root()}, 1);
  auto pair = built.results({a}, 2, 10);
  Storage* below = built.result({pair[0], pair[1]}, 100);
  built.evict(pair[0]);
  built.evict(pair[1]);
  CHECK(built.cost(a) == 1 + 10 + 10);
  CHECK(built.cost(below) == 100 + 10 + 10);
  built.check();
}

TEST_CASE("a neighbourhood ends at what is resident, and has no side ways") {
  LineageBuilder built("dtr");
  Storage* a = built.result({built.root()}, 1);
  Storage* b = built.result({a}, 10);
  Storage* c = built.result({b}, 100);
  Storage* aside = built.result({a}, 1000);
  built.evict(a);
  CHECK(built.cost(c) == 100);
  built.evict(aside);
  CHECK(built.cost(b) == 10 + 1);  // `aside` is neither above nor below b
  built.evict(b);
  CHECK(built.cost(c) == 100 + 10 + 1);
  built.check();
}

TEST_CASE("what is dead counts while something reads it, and is forgotten with its last reader") {
  LineageBuilder built("dtr");
  Storage* a = built.result({built.root()}, 1);
  Storage* dead = built.result({a}, 10);
  Storage* further = built.result({dead}, 100);
  Storage* below = built.result({further}, 1000);
  CHECK(built.cost(a) == 1);
  built.die(dead);
  CHECK(built.cost(a) == 1 + 10);
  built.die(further);
  CHECK(built.cost(a) == 1 + 10 + 100);
  CHECK(built.cost(below) == 1000 + 10 + 100);
  built.die(below);
  CHECK(built.cost(a) == 1);
  built.check();
}

TEST_CASE("an evicted value that dies unread is forgotten") {
  LineageBuilder built("dtr");
  Storage* a = built.result({built.root()}, 1);
  Storage* b = built.result({a}, 10);
  built.evict(b);
  CHECK(built.cost(a) == 11);
  built.die(b);
  CHECK(built.cost(a) == 1);
  built.check();
}

}  // namespace
}  // namespace tidepool
