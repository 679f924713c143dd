#include "remat/lineage/neighbourhood.h"

#include <set>

#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"

namespace tidepool {
namespace {

using remat::Neighbourhood;
using remat::Storage;

TEST_CASE("ancestors reach up through what is unavailable, each record once") {
  LineageBuilder built;
  Neighbourhood near(built.store);
  Storage* x = built.root();
  Storage* a = built.result({x}, 1);
  auto pair = built.results({a}, 2, 10);
  Storage* b = built.result({a}, 100);
  Storage* c = built.result({pair[0], pair[1], b}, 1000);
  CHECK(near.ancestors_ns(*c->current) == 0);
  built.evict(pair[0]);
  built.evict(pair[1]);
  CHECK(near.ancestors_ns(*c->current) == 10);
  built.evict(b);
  CHECK(near.ancestors_ns(*c->current) == 110);
  built.evict(a);
  CHECK(near.ancestors_ns(*c->current) == 111);
  built.install(pair[0]);
  built.install(pair[1]);
  built.install(b);
  CHECK(near.ancestors_ns(*c->current) == 0);  // a is evicted, but nothing leads there
}

TEST_CASE("descendants count where they are live or lead to what is") {
  LineageBuilder built;
  Neighbourhood near(built.store);
  Storage* x = built.root();
  Storage* a = built.result({x}, 1);
  Storage* dead = built.result({a}, 10);
  Storage* below = built.result({dead}, 100);
  Storage* aside = built.result({a}, 1000);
  built.die(dead);
  CHECK(near.needed_descendants_ns(*a->current) == 0);  // `dead` leads only to a resident value
  built.evict(below);
  CHECK(near.needed_descendants_ns(*a->current) == 110);
  built.evict(aside);
  CHECK(near.needed_descendants_ns(*a->current) == 1110);
  built.install(below);
  CHECK(near.needed_descendants_ns(*a->current) == 1000);
  built.check();
}

TEST_CASE("a diamond's records are each counted once, and need is handed up on every path") {
  LineageBuilder built;
  Neighbourhood near(built.store);
  Storage* top = built.result({built.root()}, 1);
  Storage* left = built.result({top}, 10);
  Storage* right = built.result({top}, 100);
  Storage* bottom = built.result({left, right}, 1000);
  built.evict(bottom);
  built.die(left);
  built.die(right);
  CHECK(near.needed_descendants_ns(*top->current) == 1110);
}

TEST_CASE("the frontier is what a change of availability concerns") {
  LineageBuilder built;
  Neighbourhood near(built.store);
  Storage* x = built.root();
  Storage* a = built.result({x});
  Storage* b = built.result({a});
  Storage* c = built.result({b});
  Storage* d = built.result({c});
  built.evict(b);
  built.evict(c);
  std::set<Storage*> above, below;
  remat::Value* changed[] = {c->current};
  near.for_each_frontier(
      changed, [&](Storage& storage) { above.insert(&storage); },
      [&](Storage& storage) { below.insert(&storage); });
  CHECK(above == std::set<Storage*>{a});
  CHECK(below == std::set<Storage*>{d});
}

TEST_CASE("what lies above is told once, until its descendants are summed again") {
  using Sum = uint64_t (Neighbourhood::*)(const remat::Value&);
  for (const Sum sum :
       {&Neighbourhood::needed_descendants_ns, &Neighbourhood::descendant_values_ns}) {
    LineageBuilder built;
    Neighbourhood near(built.store);
    Storage* left = built.result({built.root()}, 1);
    Storage* right = built.result({built.root()}, 1);
    Storage* middle = built.result({left, right}, 10);
    Storage* bottom = built.result({middle}, 100);
    built.evict(middle);
    built.evict(bottom);
    remat::Value* changed[] = {bottom->current};
    const auto told = [&] {
      std::set<Storage*> above;
      near.for_each_frontier(
          changed, [&](Storage& storage) { above.insert(&storage); }, [](Storage&) {});
      return above;
    };
    CHECK(told() == std::set<Storage*>{left, right});
    CHECK(told().empty());
    CHECK((near.*sum)(*left->current) == 110);
    CHECK(told().contains(left));
    CHECK(told().empty());
    // A sum that has nothing to do with it changes nothing.
    CHECK((near.*sum)(*bottom->current) == 0);
    CHECK(told().empty());
  }
}

}  // namespace
}  // namespace tidepool
