// The policies beside the papers: a graph worked out by hand, and random graphs beside the model.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "remat/policies/table/policy_table.h"
#include "tests/remat/policies/heuristic_model.h"
#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

using remat::Circumstances;
using remat::Policy;
using remat::Storage;
using test::HeuristicModel;

// What the loop takes the least of. Coop's h knows no size.
double h_of(const std::string& name, Policy& policy, Storage& storage, const Circumstances& now) {
  const double price = policy.price(storage, now);
  return name == "coop" ? price : price / static_cast<double>(storage.current->bytes);
}

// x (comes from outside)
// a  = f(x)     cost  2   128 bytes
// b  = g(a)     cost  3    64 bytes
// c1, c2 = h(b) cost  5    64 and 192 bytes
// d  = k(c1, a) cost  7   256 bytes
// e  = m(d)     cost 11    64 bytes
struct Example {
  explicit Example(const std::string& name_of_policy) : name(name_of_policy), built(name) {
    x = built.root();
    a = built.result({x}, 2, 128);
    b = built.result({a}, 3, 64);
    auto pair = built.results({b}, 2, 5, 64);
    c1 = pair[0];
    c2 = pair[1];
    c2->current->bytes = 192;
    d = built.result({c1, a}, 7, 256);
    e = built.result({d}, 11, 64);
  }
  double h(Storage* storage, uint64_t staleness_ns = 10, size_t free_beside_bytes = 0) {
    return h_of(name, *built.policy, *storage, {staleness_ns, free_beside_bytes});
  }

  const std::string name;
  LineageBuilder built;
  Storage *x, *a, *b, *c1, *c2, *d, *e;
};

bool near(double found, double expected) { return std::abs(found - expected) < 1e-12 * expected; }

TEST_CASE("by hand: nothing is evicted") {
  for (const char* name : {"dtr", "dtr-eq", "dtr-local", "needed-cost", "dte"}) {
    INFO(name);
    Example at(name);
    CHECK(near(at.h(at.a), 2.0 / (128 * 10)));
    CHECK(near(at.h(at.d, 35), 7.0 / (256 * 35)));
  }
  Example coop("coop");
  CHECK(near(coop.h(coop.a), 2.0 / 10));
  Example msps("msps");
  CHECK(near(msps.h(msps.a), 2.0 / 128));
}

TEST_CASE("by hand: dtr with b and c1 evicted") {
  Example at("dtr");
  at.built.evict(at.b);
  at.built.evict(at.c1);
  CHECK(near(at.h(at.a), (2.0 + 3 + 5) / (128 * 10)));  // below: b, and c1 through b
  CHECK(near(at.h(at.c2), (5.0 + 3) / (192 * 10)));     // above: b; c1 is a sibling, no ancestor
  CHECK(near(at.h(at.d), (7.0 + 5 + 3) / (256 * 10)));  // above: c1, and b through c1
  CHECK(near(at.h(at.e), 11.0 / (64 * 10)));            // d is resident
  at.built.install(at.b);
  CHECK(near(at.h(at.a), 2.0 / (128 * 10)));  // c1 is below b only
  CHECK(near(at.h(at.b), (3.0 + 5) / (64 * 10)));
  CHECK(near(at.h(at.d), (7.0 + 5) / (256 * 10)));
}

TEST_CASE("by hand: dtr-eq with b and c1 evicted") {
  Example at("dtr-eq");
  at.built.evict(at.b);   // {b} = 3
  at.built.evict(at.c1);  // {b, c1} = 8
  CHECK(near(at.h(at.a), (2.0 + 8) / (128 * 10)));
  CHECK(near(at.h(at.c2), (5.0 + 8) / (192 * 10)));  // 5 too many: c1 is no ancestor
  CHECK(near(at.h(at.d), (7.0 + 8) / (256 * 10)));
  CHECK(near(at.h(at.e), 11.0 / (64 * 10)));
  at.built.evict(at.d);     // joins c1: {b, c1, d} = 15
  at.built.install(at.c1);  // {b, d} = 10, joined by nothing but what has come back
  CHECK(near(at.h(at.c1), (5.0 + 10) / (64 * 10)));
  CHECK(near(at.h(at.a), (2.0 + 10) / (128 * 10)));   // exact here, too: b and d both read a
  CHECK(near(at.h(at.c2), (5.0 + 10) / (192 * 10)));  // 7 too many
  CHECK(near(at.h(at.e), (11.0 + 10) / (64 * 10)));   // 3 too many
}

TEST_CASE("by hand: what knows no neighbourhood") {
  for (const char* name : {"dtr-local", "lru", "size", "delta"}) {
    Example at(name);
    at.built.evict(at.b);
    at.built.evict(at.c1);
    const std::map<std::string, std::pair<double, double>> expected{
        {"dtr-local", {2.0 / (128 * 10), 11.0 / (64 * 25)}},
        {"lru", {1.0 / 10, 1.0 / 25}},
        {"size", {1.0 / 128, 1.0 / 64}},
        {"delta", {1.0 / (128 * 10), 1.0 / (64 * 25)}}};
    INFO(name);
    CHECK(near(at.h(at.a, 10), expected.at(name).first));
    CHECK(near(at.h(at.e, 25), expected.at(name).second));
  }
}

TEST_CASE("by hand: msps with b and c1 evicted") {
  Example at("msps");
  at.built.evict(at.b);
  at.built.evict(at.c1);
  CHECK(near(at.h(at.a), 2.0 / 128));             // nothing above it is gone
  CHECK(near(at.h(at.c2, 99), (5.0 + 3) / 192));  // however stale
  CHECK(near(at.h(at.d), (7.0 + 5 + 3) / 256));
  CHECK(near(at.h(at.e), 11.0 / 64));
}

TEST_CASE("by hand: coop and dte with b and c1 evicted") {
  Example coop("coop");
  coop.built.evict(coop.b);                          // {b} = 3
  coop.built.evict(coop.c1);                         // input b: {b, c1} = 8
  CHECK(near(coop.h(coop.a), 2.0 / 10));             // readers do not count
  CHECK(near(coop.h(coop.c2), (5.0 + 8 + 8) / 10));  // input b and sibling c1, one component twice
  CHECK(near(coop.h(coop.d), (7.0 + 8) / 10));       // input c1
  CHECK(near(coop.h(coop.e), 11.0 / 10));
  Example dte("dte");
  dte.built.evict(dte.b);
  dte.built.evict(dte.c1);
  CHECK(near(dte.h(dte.c2, 10, 0), (5.0 + 8 + 8) / (192 * 10)));
  CHECK(near(dte.h(dte.c2, 10, 64), (5.0 + 8 + 8) / ((192 + 64) * 10)));
  CHECK(near(dte.h(dte.a, 10, 384), 2.0 / ((128 + 384) * 10)));
}

TEST_CASE("by hand: what needed-cost leaves out of dtr's neighbourhood") {
  Example need("needed-cost");
  Example dtr("dtr");
  for (Example* at : {&need, &dtr}) {
    at->built.evict(at->b);
    at->built.die(at->c1);
  }
  // c1 is dead and leads only to d, which is resident; b is live.
  CHECK(near(need.h(need.a), (2.0 + 3) / (128 * 10)));
  CHECK(near(dtr.h(dtr.a), (2.0 + 3 + 5) / (128 * 10)));
}

TEST_CASE("random draws all of (0, 1) by seed") {
  double least = 1, most = 0;
  Example at("random");
  for (int k = 0; k < 1000; ++k) {
    const double h = at.h(at.a);
    least = std::min(least, h);
    most = std::max(most, h);
  }
  CHECK((least > 0 && least < 0.02));
  CHECK((most < 1 && most > 0.98));
  auto draws = [&](uint64_t seed) {
    const auto policy = remat::make_policy("random", at.built.store, seed);
    std::vector<double> found;
    for (int k = 0; k < 5; ++k) found.push_back(policy->price(*at.a, {}));
    return found;
  };
  CHECK(draws(7) == draws(7));
  CHECK(draws(7) != draws(8));
}

// One graph, changed at random: made, evicted, brought back, dropped. Storages that the job holds
// have the same number in the model.
class RandomGraph {
 public:
  RandomGraph(const std::string& policy, LineageBuilder& built, uint64_t seed)
      : policy_(policy), built_(built), random_(seed) {
    add(built_.root(), model_.add_root());
  }
  ~RandomGraph() {
    for (; !held_.empty(); held_.pop_back()) built_.die(held_.back().first);
  }
  RandomGraph(const RandomGraph&) = delete;
  RandomGraph& operator=(const RandomGraph&) = delete;

  void run(int steps) {
    for (int k = 0; k < steps; ++k) {
      step();
      if (random_.chance(15)) built_.policy->begin_search();
      compare();
      if (differs_) return;
    }
    built_.check();
  }
  bool differs() const { return differs_; }
  const std::string& difference() const { return difference_; }
  uint64_t compared() const { return compared_; }

 private:
  static constexpr size_t kMost = 16;

  void add(Storage* storage, size_t node) { held_.emplace_back(storage, node); }

  void step() {
    const size_t at = random_.below(held_.size());
    const auto [storage, node] = held_[at];
    const uint64_t choice = random_.below(10);
    if (choice < 4 && held_.size() < kMost) {
      make();
    } else if (choice < 7) {
      if (built_.evict(storage)) model_.evict(node);
    } else if (choice < 8) {
      if (!storage->evicted) return;
      built_.install(storage);
      model_.bring_back(node);
    } else if (storage->current->producer != nullptr) {
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(at));
      built_.die(storage);
      model_.die(node);
    }
  }

  void make() {
    std::vector<Storage*> inputs;
    std::vector<size_t> nodes;
    for (size_t k = 1 + random_.below(3); k > 0; --k) {
      const auto [storage, node] = held_[random_.below(held_.size())];
      inputs.push_back(storage);
      nodes.push_back(node);
    }
    const size_t count = random_.chance(25) ? 2 : 1;
    const uint64_t cost = 1 + random_.below(1000);
    const size_t bytes = 64 * (1 + random_.below(16));
    const auto made = built_.results(inputs, count, cost, bytes);
    const auto numbers = model_.add_results(nodes, count, cost, static_cast<double>(bytes));
    for (size_t k = 0; k < count; ++k) add(made[k], numbers[k]);
  }

  void compare() {
    for (const auto& [storage, node] : held_) {
      if (storage->evicted || storage->current->producer == nullptr) continue;
      const Circumstances now{1 + random_.below(100'000), 64 * random_.below(8)};
      const double expected = model_.h(policy_, node, static_cast<double>(now.staleness_ns),
                                       static_cast<double>(now.free_beside_bytes));
      const double found = h_of(policy_, *built_.policy, *storage, now);
      ++compared_;
      if (!near(found, expected)) {
        differs_ = true;
        difference_ = "node " + std::to_string(node) + ": " + std::to_string(found) +
                      ", expected " + std::to_string(expected);
      }
    }
  }

  const std::string& policy_;
  LineageBuilder& built_;
  HeuristicModel model_;
  test::Random random_;
  std::vector<std::pair<Storage*, size_t>> held_;
  bool differs_ = false;
  std::string difference_;
  uint64_t compared_ = 0;
};

TEST_CASE("on random graphs every policy agrees with its paper's definition") {
#ifdef TIDEPOOL_SANITIZED
  constexpr uint64_t kGraphs = 300;
#else
  constexpr uint64_t kGraphs = 10'000;
#endif
  uint64_t compared = 0;
  for (const std::string& name : remat::policy_names()) {
    // Nothing repeats here, and there is no plan.
    if (name == "random" || name == "next-use" || name == "planned") continue;
    LineageBuilder built(name);  // one after the other: what a graph leaves behind would show
    for (uint64_t seed = 0; seed < kGraphs; ++seed) {
      RandomGraph graph(name, built, seed);
      graph.run(24);
      compared += graph.compared();
      if (!graph.differs()) continue;
      FAIL(name << " on graph " << seed << ": " << graph.difference());
    }
  }
  CHECK(compared > kGraphs * 10 * 24);
}

}  // namespace
}  // namespace tidepool
