#include "remat/policies/component_policy.h"

#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"

namespace tidepool {
namespace {

using remat::Storage;

TEST_CASE("coop counts inputs and siblings, doubles included, and no readers") {
  LineageBuilder built("coop");
  Storage* a = built.result({built.root()}, 1);
  Storage* b = built.result({a}, 10);
  Storage* c = built.result({a}, 100);
  Storage* d = built.result({b, c}, 1000);
  Storage* e = built.result({d}, 10'000);
  for (Storage* each : {a, b, c}) built.evict(each);
  CHECK(built.cost(d) == 1000 + 111 + 111);
  built.evict(e);
  CHECK(built.cost(d) == 1000 + 111 + 111);
  built.check();
}

TEST_CASE("whose readers join depends on the policy") {
  // a -> b -> c; b goes first, then a. DTR joins a to its evicted reader b; Coop does not.
  for (const char* name : {"dtr-eq", "coop"}) {
    LineageBuilder built(name);
    Storage* a = built.result({built.root()}, 1);
    Storage* b = built.result({a}, 10);
    Storage* c = built.result({b}, 100);
    built.evict(b);
    built.evict(a);
    CHECK(built.cost(c) == 100 + 10 + (std::string(name) == "dtr-eq" ? 1 : 0));
    built.check();
  }
}

TEST_CASE("siblings join for coop, not for dtr-eq") {
  for (const char* name : {"dtr-eq", "coop"}) {
    LineageBuilder built(name);
    Storage* x = built.root();
    auto pair = built.results({x}, 2, 10);
    Storage* below = built.result({pair[0]}, 100);
    built.evict(pair[0]);
    built.evict(pair[1]);
    CHECK(built.cost(below) == 100 + 10 + (std::string(name) == "coop" ? 10 : 0));
    built.check();
  }
}

TEST_CASE("who is forgotten leaves the components") {
  LineageBuilder built("dtr-eq");
  Storage* a = built.result({built.root()}, 1);
  Storage* dead = built.result({a}, 10);
  Storage* below = built.result({dead}, 100);
  built.die(dead);
  CHECK(built.cost(a) == 11);
  built.die(below);  // nobody reads `dead` any more
  CHECK(built.cost(a) == 1);
  built.check();
}

}  // namespace
}  // namespace tidepool
