#include "remat/policies/baselines/dtr_eq.h"

#include <set>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

using remat::Storage;
using remat::Value;

// The oracle for dtr-eq: own cost + the costs of all unavailable values reached in either direction
// through unavailable values.
uint64_t exact_cost(const Value& value) {
  std::set<const Value*> seen;
  std::vector<const Value*> pending;
  auto meet = [&](const Value* other) {
    if (other != nullptr && other != &value && !other->available() && seen.insert(other).second) {
      pending.push_back(other);
    }
  };
  auto neighbours = [&](const Value& at) {
    if (at.producer != nullptr) {
      for (size_t k = 0; k < at.producer->edge_count; ++k) meet(at.producer->edges[k].value);
    }
    for (const remat::Edge* edge = at.consumers; edge != nullptr; edge = edge->next) {
      for (size_t k = 0; k < edge->record->output_count; ++k) meet(edge->record->outputs[k]);
    }
  };
  uint64_t sum = value.producer->cost_ns;
  neighbours(value);
  while (!pending.empty()) {
    const Value* next = pending.back();
    pending.pop_back();
    sum += next->producer->cost_ns;
    neighbours(*next);
  }
  return sum;
}

TEST_CASE("dtr-eq is exact while nothing has come back, and too great afterwards") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    test::Random random(seed);
    LineageBuilder built("dtr-eq");
    std::vector<Storage*> all{built.root()};
    for (int k = 0; k < 40; ++k) {
      all.push_back(built.result({all[random.below(all.size())], all[random.below(all.size())]},
                                 1 + random.below(1000)));
    }
    auto compare = [&](bool exact) {
      for (Storage* each : all) {
        if (each->evicted || each->current->producer == nullptr) continue;
        const uint64_t price = built.cost(each);
        if (exact) {
          REQUIRE(price == exact_cost(*each->current));
        } else {
          REQUIRE(price >= exact_cost(*each->current));
        }
      }
    };
    for (int k = 0; k < 25; ++k) {
      built.evict(all[random.below(all.size())]);
      compare(true);
    }
    for (int k = 0; k < 25; ++k) {
      Storage* each = all[random.below(all.size())];
      if (each->evicted) built.install(each);
      compare(false);
      built.check();
    }
  }
}

TEST_CASE("values once joined stay joined when what joined them comes back") {
  LineageBuilder built("dtr-eq");
  Storage* a = built.result({built.root()}, 1);
  Storage* b = built.result({a}, 10);
  Storage* c = built.result({b}, 100);
  Storage* d = built.result({c}, 1000);
  for (Storage* each : {a, b, c}) built.evict(each);
  CHECK(built.cost(d) == 1111);
  built.install(b);
  CHECK(exact_cost(*d->current) == 1100);
  CHECK(built.cost(d) == 1101);  // the phantom: a
}

}  // namespace
}  // namespace tidepool
