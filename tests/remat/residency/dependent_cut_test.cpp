#include "remat/residency/dependent_cut.h"

#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"

namespace tidepool {
namespace {

using remat::Dependents;
using remat::RootReason;
using remat::Storage;
using Spares = remat::DependentCut::Spares;

TEST_CASE("dependents are found through dead values, and no further than live ones") {
  LineageBuilder built;
  Storage* x = built.root();
  Storage* dead = built.result({x});
  Storage* near = built.result({dead});
  Storage* far = built.result({near});
  Storage* aside = built.result({x, dead});
  built.die(dead);
  built.evict(aside);
  const Dependents found = built.dependent_cut.dependents(*x->current);
  REQUIRE(found.resident.size() == 1);
  CHECK(found.resident[0] == near->current);
  REQUIRE(found.evicted.size() == 1);
  CHECK(found.evicted[0] == aside->current);
  CHECK(built.dependent_cut.dependents(*far->current).evicted.empty());
}

TEST_CASE("a dying root is retained for evicted dependents, and only for them") {
  LineageBuilder built;
  Storage* x = built.root();
  Storage* a = built.result({x});
  Storage* b = built.result({x});
  built.evict(a);
  CHECK(built.die(x));
  built.check();
  CHECK(built.dependent_cut.sweep(Spares::kStay) == 0);
  CHECK(built.install(a));
  CHECK(built.dependent_cut.sweep(Spares::kStay) == 1);
  CHECK(built.residency.kept().empty());
  CHECK(a->current->producer == nullptr);
  CHECK(a->current->reason == RootReason::kLostRoot);
  CHECK(b->current->producer == nullptr);
  CHECK(built.store.records() == 0);
  built.check();
}

TEST_CASE("a dying root without evicted dependents leaves roots") {
  LineageBuilder built;
  Storage* x = built.root();
  Storage* a = built.result({x});
  Storage* b = built.result({a});
  CHECK(!built.die(x));
  CHECK(a->current->producer == nullptr);
  CHECK(b->current->producer != nullptr);  // a is there to read
  built.check();
}

TEST_CASE("a root that the job will fill again is spared for resident dependents") {
  LineageBuilder built;
  Storage* x = built.root();
  Storage* a = built.result({x});
  Storage* b = built.result({x});
  x->will_be_refilled = true;
  CHECK(built.die(x));
  CHECK(built.dependent_cut.sweep(Spares::kStay) == 0);
  built.evict(a);
  built.check();
  CHECK(built.dependent_cut.sweep(Spares::kGo) == 0);
  CHECK(built.install(a));
  CHECK(b->current->producer != nullptr);
  CHECK(built.dependent_cut.sweep(Spares::kGo) == 1);
  CHECK(a->current->producer == nullptr);
  CHECK(b->current->reason == RootReason::kLostRoot);
  built.check();
}

TEST_CASE("a root is not spared for as few bytes as it has itself") {
  LineageBuilder built;
  Storage* x = built.root();
  Storage* a = built.result({x});
  x->will_be_refilled = true;
  CHECK(!built.die(x));
  CHECK(a->current->producer == nullptr);
}

TEST_CASE("a spare root goes with the last that depends on it") {
  LineageBuilder built;
  Storage* x = built.root();
  Storage* a = built.result({x});
  Storage* b = built.result({x});
  x->will_be_refilled = true;
  CHECK(built.die(x));
  built.die(a);
  CHECK(built.residency.kept().size() == 1);
  built.die(b);
  CHECK(built.residency.kept().empty());
  built.check();
}

TEST_CASE("a dying number is spared for resident dependents, and larger roots are not") {
  LineageBuilder built;
  Storage* number = built.root(64);
  Storage* larger = built.root(128);
  Storage* a = built.result({number}, 10, 1024);
  Storage* b = built.result({larger}, 10, 1024);
  CHECK(built.die(number));
  CHECK(!built.die(larger));
  CHECK(b->current->reason == RootReason::kLostRoot);
  CHECK(built.dependent_cut.sweep(Spares::kStay) == 0);
  built.evict(a);
  CHECK(built.dependent_cut.sweep(Spares::kGo) == 0);
  CHECK(built.install(a));
  CHECK(built.dependent_cut.sweep(Spares::kGo) == 1);
  CHECK(a->current->producer == nullptr);
  built.check();
}

TEST_CASE("a root that only a limit has made one is spared for dependents of twice its bytes") {
  LineageBuilder built;
  Storage* early = built.root(4096);
  early->current->reason = RootReason::kDepthLimit;
  Storage* other = built.result({early}, 10, 16000);
  CHECK(!built.die(early));  // nothing has been evicted yet
  CHECK(other->current->reason == RootReason::kLostRoot);
  built.evict(built.result({built.root()}));
  Storage* limited = built.root(4096);
  limited->current->reason = RootReason::kDepthLimit;
  Storage* smaller = built.root(4096);
  smaller->current->reason = RootReason::kDepthLimit;
  Storage* a = built.result({limited}, 10, 9000);
  Storage* b = built.result({limited}, 10, 9000);
  Storage* c = built.result({smaller}, 10, 8000);
  CHECK(built.die(limited));
  CHECK(!built.die(smaller));
  CHECK(c->current->reason == RootReason::kLostRoot);
  built.evict(a);
  CHECK(built.dependent_cut.sweep(Spares::kGo) == 0);
  CHECK(built.install(a));
  CHECK(b->current->producer != nullptr);
  CHECK(built.dependent_cut.sweep(Spares::kGo) == 1);
  CHECK(b->current->reason == RootReason::kLostRoot);
  built.check();
}

TEST_CASE("small roots that die above the same dead records do not walk over all of them each") {
  constexpr size_t kMany = 2000;
  LineageBuilder built;
  std::vector<Storage*> numbers;
  std::vector<Storage*> chain{built.root()};
  for (size_t k = 0; k < kMany; ++k) {
    numbers.push_back(built.root());
    chain.push_back(built.result({chain.back(), numbers.back()}, 10, 4096));
  }
  for (size_t k = kMany; k-- > 1;) built.die(chain[k]);
  built.dependent_cut.checks = 0;
  for (size_t k = 0; k < kMany; ++k) built.die(numbers[k]);
  CHECK(built.dependent_cut.checks <= 3 * kMany);
  CHECK(chain.back()->current->producer == nullptr);
  built.check();
}

TEST_CASE("contents that are being overwritten count as dead, and lose their lineage too") {
  LineageBuilder built;
  Storage* x = built.root(128);
  Storage* written = built.result({x});
  Storage* reader = built.result({written});
  built.evict(reader);
  written->writing = true;
  CHECK(built.dependent_cut.dependents(*x->current).evicted.size() == 1);
  written->writing = false;
  built.install(reader);
  written->writing = true;
  CHECK(!built.die(x));
  CHECK(written->current->producer == nullptr);
  CHECK(reader->current->producer == nullptr);
}

TEST_CASE("a plan's uses keep a dead root") {
  LineageBuilder built;
  Storage* x = built.root();
  Storage* a = built.result({x});
  built.evict(a);
  remat::Value& root = *x->current;
  CHECK(built.die(x));
  built.install(a);
  root.uses = 1;
  CHECK(built.dependent_cut.sweep(Spares::kStay) == 0);
  root.uses = 0;
  CHECK(built.dependent_cut.sweep(Spares::kStay) == 1);
}

TEST_CASE("dead roots that one record reads cost no look through all its outputs each") {
  constexpr size_t kMany = 300;
  LineageBuilder built;
  std::vector<Storage*> roots;
  for (size_t k = 0; k < kMany; ++k) roots.push_back(built.root());
  const std::vector<Storage*> outputs = built.results(roots, kMany, 10);
  built.evict(outputs.back());
  for (Storage* root : roots) CHECK(built.die(root));
  CHECK(built.dependent_cut.checks <= 3 * kMany);
  CHECK(built.dependent_cut.sweep(Spares::kStay) == 0);
  built.check();
  CHECK(built.install(outputs.back()));
  CHECK(built.dependent_cut.sweep(Spares::kStay) == kMany);
  CHECK(built.dependent_cut.checks <= 12 * kMany);
  CHECK(built.store.records() == 0);
  built.check();
}

TEST_CASE("a sweep keeps what evicted values need through dead ones, and frees the rest") {
  LineageBuilder built;
  Storage* needed = built.root();
  Storage* idle = built.root();
  Storage* aside = built.result({idle, needed});
  Storage* dead = built.result({needed});
  Storage* far = built.result({dead});
  built.evict(far);
  built.evict(aside);
  built.die(dead);
  CHECK(built.die(needed));
  CHECK(built.die(idle));
  CHECK(built.dependent_cut.sweep(Spares::kStay) == 0);
  CHECK(built.install(aside));
  CHECK(built.dependent_cut.sweep(Spares::kStay) == 1);
  CHECK(built.residency.kept().size() == 1);
  CHECK(aside->current->producer == nullptr);
  CHECK(far->current->producer != nullptr);
  CHECK(built.install(far));
  CHECK(built.dependent_cut.sweep(Spares::kStay) == 1);
  built.check();
}

}  // namespace
}  // namespace tidepool
