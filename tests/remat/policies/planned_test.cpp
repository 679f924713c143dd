#include "remat/policies/planned.h"

#include <vector>

#include "remat/policies/table/policy_table.h"
#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

using remat::PlannedPolicy;
using remat::StepPlan;
using remat::Storage;

// x -> a -> b -> c, then c is read.
struct Job {
  LineageBuilder built{"planned"};
  PlannedPolicy& policy = dynamic_cast<PlannedPolicy&>(*built.policy);
  Storage *x = nullptr, *a = nullptr, *b = nullptr, *c = nullptr;
  uint64_t now_ns = 1;

  Storage* call(uint64_t site, Storage* operand, uint64_t cost_ns) {
    const auto call = policy.step_history()->begin(site, {&operand, 1}, now_ns);
    now_ns += 10;
    Storage* made = built.result({operand}, cost_ns);
    policy.step_history()->finish(call, {&made, 1});
    return made;
  }
  void begin(uint64_t site = 1) { x = built.root(), a = call(site, x, 100); }
  void go_on(uint64_t site = 2) { b = call(site, a, 200), c = call(3, b, 400); }
  void end() { policy.step_history()->end_step(now_ns); }
  void step() { begin(), go_on(), end(); }
  double price(Storage* storage) { return policy.price(*storage, {2, 0}); }
  // For the last step.
  StepPlan plan_of(const char* name, std::vector<float> weights) {
    StepPlan plan;
    plan.policy = name;
    plan.weights = std::move(weights);
    plan.fingerprint = policy.step_history()->last_fingerprint();
    return plan;
  }
};

TEST_CASE("needed-cost's prices without a plan, the plan's factors with one") {
  Job job;
  job.begin(), job.go_on();
  CHECK(job.price(job.b) == 200.0 / 2);
  job.end();
  job.policy.set_plan(job.plan_of("needed-cost", {2, 0.5, 4}));
  job.begin(), job.go_on();
  CHECK(job.price(job.a) == 2 * 100.0 / 2);
  CHECK(job.price(job.b) == 0.5 * 200.0 / 2);
  CHECK(job.price(job.c) == 4 * 400.0 / 2);
  CHECK(job.policy.follows_plan());
  job.built.check();
}

TEST_CASE("a plan may price copies by when contents are used next") {
  Job job;
  job.step();
  CHECK(job.policy.copy_price(*job.a, 800, 400, {100, 0}) == 800.0 / 100);
  StepPlan plan = job.plan_of("needed-cost", {});
  CHECK(plan.is_none());
  plan.copies.use_share = 0.5;
  CHECK_FALSE(plan.is_none());
  job.policy.set_plan(plan);
  job.begin();
  CHECK(job.price(job.a) == 100.0 / 2);
  CHECK(job.policy.follows_plan());
  CHECK(job.policy.copy_price(*job.a, 800, 400, {100, 0}) == 800.0 / 201);  // of 100 and 400, and 1
  CHECK(job.policy.copy_price(*job.a, 800, 0, {100, 0}) == 800.0 / 100);    // nothing is foreseen
  CHECK(job.policy.time_price(800, {100, 0}) == 800.0 / 100);               // of a move
  job.call(9, job.a, 200);                                                  // another step
  job.price(job.a);
  CHECK(job.policy.copy_price(*job.a, 800, 400, {100, 0}) == 800.0 / 100);
}

TEST_CASE("a plan may multiply the prices of copies, of roots by a factor of their own") {
  Job job;
  job.step();
  StepPlan plan = job.plan_of("needed-cost", {});
  plan.copies.factor = 4;
  plan.copies.root_factor = 0.5;
  CHECK_FALSE(plan.is_none());
  job.policy.set_plan(plan);
  job.begin();
  CHECK(job.price(job.a) == 100.0 / 2);
  CHECK(job.policy.copy_price(*job.a, 800, 0, {100, 0}) == 4 * 800.0 / 100);
  CHECK(job.policy.copy_price(*job.x, 800, 0, {100, 0}) == 0.5 * 800.0 / 100);
  CHECK(job.policy.time_price(800, {100, 0}) == 800.0 / 100);  // of a move
}

TEST_CASE("a plan may name another policy, in the unit of needed-cost") {
  Job job;
  job.step();
  job.policy.set_plan(job.plan_of("msps", {}));
  job.begin(), job.go_on();
  job.built.evict(job.a);
  const auto msps = remat::make_policy("msps", job.built.store);
  const uint64_t own = msps->fixed(300).value;
  const uint64_t priced = job.policy.fixed(job.price(job.b)).value;
  CHECK(priced == own);
  CHECK(job.policy.follows_plan());
  job.built.check();
}

TEST_CASE(
    "from the first difference on needed-cost prices, and the next step is without the plan") {
  Job job;
  job.step();
  job.policy.set_plan(job.plan_of("dtr-eq", {1, 3, 1}));
  job.begin();
  CHECK(job.price(job.a) == 100.0 / 2);
  CHECK(job.policy.follows_plan());
  job.go_on(77);
  CHECK(job.price(job.b) == 200.0 / 2);
  CHECK(!job.policy.follows_plan());
  job.built.check();
  job.end();
  job.begin(), job.go_on(77);
  CHECK(job.price(job.b) == 200.0 / 2);  // this step is foreseen, but the plan is another's
  job.end();
  job.begin(), job.go_on(77);
  CHECK(!job.policy.follows_plan());
}

TEST_CASE("what a plan drops in a gap costs far less than all else, until the gap ends") {
  Job job;
  const auto read_again = [&] {  // b is read by c, and then by d
    job.go_on();
    return job.call(4, job.b, 800);
  };
  job.begin(), read_again();
  job.end();
  StepPlan plan = job.plan_of("needed-cost", {});
  // Operators a, b, c, d have made results 0 to 3. Gap 1 of b lies between c and d.
  plan.gaps = {{1, 1, false}, {2, 0, true}};
  job.policy.set_plan(plan);
  job.begin();
  CHECK(job.price(job.a) == 1024 * 100.0 / 2);
  job.b = job.call(2, job.a, 200);
  CHECK(job.price(job.b) == 1024 * 200.0 / 2);  // in its gap 0
  job.c = job.call(3, job.b, 400);
  CHECK(job.policy.follows_plan());
  CHECK(!job.policy.allows_shortlists());
  CHECK(job.price(job.b) == 200.0 / 2 / 1024);
  CHECK(job.price(job.c) == 400.0 / 2 / 1024);
  job.built.evict(job.c);
  REQUIRE(job.built.install(job.c));
  CHECK(job.price(job.c) == 1024 * 400.0 / 2);  // restored in its gap, it stays
  job.call(4, job.b, 800);
  CHECK(job.price(job.b) == 1024 * 200.0 / 2);  // in its last gap
  job.built.check();
  job.end();
  // A plan that names a result which the step does not have is for another step.
  plan.gaps->push_back({4, 0, false});
  job.policy.set_plan(plan);
  job.begin();
  CHECK(job.price(job.a) == 100.0 / 2);
}

TEST_CASE("what a plan drops after a reader leaves once that has been restored in the gap") {
  Job job;
  const auto read_again = [&] {  // a is read by b, and then by d
    job.go_on();
    return job.call(4, job.a, 800);
  };
  job.begin(), read_again();
  job.end();
  StepPlan plan = job.plan_of("needed-cost", {});
  plan.gaps = {{0, 1, false, 1}, {1, 1, false}};  // a, after b has been restored
  job.policy.set_plan(plan);
  job.begin();
  job.b = job.call(2, job.a, 200);
  job.c = job.call(3, job.b, 400);
  CHECK(job.price(job.a) == 1024 * 100.0 / 2);
  CHECK(job.policy.follows_plan());
  job.built.evict(job.b);
  CHECK(job.price(job.a) > 1);
  REQUIRE(job.built.install(job.b));
  CHECK(job.price(job.a) == 100.0 / 2 / 1024);
  job.call(4, job.a, 800);
  CHECK(job.price(job.a) == 1024 * 100.0 / 2);  // in its last gap
  job.built.check();
  job.end();
  // In the next step it is waited for anew.
  job.begin();
  job.b = job.call(2, job.a, 200);
  job.c = job.call(3, job.b, 400);
  CHECK(job.price(job.a) == 1024 * 100.0 / 2);
}

TEST_CASE("a plan comes into use with a step, never within one") {
  Job job;
  job.step();
  job.begin();
  job.policy.set_plan(job.plan_of("needed-cost", {2, 2, 2}));
  job.go_on();
  CHECK(job.price(job.b) == 200.0 / 2);
  job.end();
  job.begin();
  CHECK(job.price(job.a) == 2 * 100.0 / 2);
  job.go_on(), job.end();
  // One of the wrong length is for another step.
  job.policy.set_plan(job.plan_of("needed-cost", {2, 2}));
  job.begin();
  CHECK(job.price(job.a) == 100.0 / 2);
  CHECK_THROWS_AS(job.policy.set_plan(job.plan_of("random", {})), std::invalid_argument);
}

TEST_CASE("each kind of step has a plan of its own, also one that shows in the middle") {
  Job job;
  job.step();
  job.policy.set_plan(job.plan_of("needed-cost", {2, 2, 2}));
  job.begin(), job.go_on(77), job.end();
  job.policy.set_plan(job.plan_of("needed-cost", {8, 8, 8}));
  for (int k = 0; k < 2; ++k) {
    job.begin(), job.go_on();
    CHECK(job.price(job.b) == 2 * 200.0 / 2);
    job.end();
    job.begin(), job.go_on(77);
    CHECK(job.price(job.b) == 8 * 200.0 / 2);
    job.end();
  }
  job.begin();
  CHECK(job.price(job.a) == 2 * 100.0 / 2);  // after the other kind
  job.go_on(77);
  CHECK(job.price(job.b) == 8 * 200.0 / 2);
  job.end();
  // One plan is taken back.
  job.policy.set_plan(job.plan_of("needed-cost", {}));
  job.begin(), job.go_on();
  CHECK(job.price(job.b) == 2 * 200.0 / 2);
  job.end();
  job.begin(), job.go_on(77);
  CHECK(job.price(job.b) == 200.0 / 2);
  job.built.check();
}

TEST_CASE("a plan says which way to make room, as long as the step goes as foreseen") {
  Job job;
  job.step();
  StepPlan plan = job.plan_of("needed-cost", {});
  plan.preference = Preference::kMoves;
  job.policy.set_plan(plan);
  CHECK(job.policy.preference() == Preference::kCheapest);
  job.begin();
  job.policy.begin_search();
  CHECK(job.policy.preference() == Preference::kMoves);
  CHECK(job.policy.follows_plan());
  job.go_on(77);
  CHECK(job.policy.preference() == Preference::kCheapest);
  CHECK(job.price(job.b) == 200.0 / 2);
  CHECK(!job.policy.follows_plan());
}

// Evictions and deaths, while the active policy changes from step to step: check() compares caches,
// marks and components with what they should be.
TEST_CASE("what a policy keeps is dropped when another takes over") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    test::Random random(seed);
    Job job;
    job.step();
    std::vector<Storage*> kept;
    for (uint32_t step = 2; step < 12; ++step) {
      const auto names = PlannedPolicy::candidates();
      job.policy.set_plan(job.plan_of(names[random.below(names.size())].c_str(), {1, 2, 3}));
      job.begin();
      job.price(job.a);
      job.go_on(random.chance(20) ? 50 : 2);
      for (Storage* storage : {job.a, job.b, job.c}) {
        job.price(storage);
        kept.push_back(storage);
      }
      for (int k = 0; k < 4; ++k) {
        const size_t at = random.below(kept.size());
        if (!kept[at]->evicted) {
          job.built.evict(kept[at]);
        } else if (random.chance(50)) {
          job.built.install(kept[at]);
        } else {
          job.built.die(kept[at]);
          kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(at));
        }
        for (Storage* storage : kept) {
          if (!storage->evicted) job.price(storage);
        }
        job.built.check();
      }
      job.end();
    }
  }
}

}  // namespace
}  // namespace tidepool
