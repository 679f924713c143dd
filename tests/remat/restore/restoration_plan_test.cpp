#include "remat/restore/restoration_plan.h"

#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"

namespace tidepool {
namespace {

using remat::RestorationError;
using remat::RestorationPlan;
using remat::Storage;
using Mode = RestorationPlan::Mode;

// Runs the plan's bookkeeping as if each record had produced all that is wanted of it.
std::vector<const remat::Record*> run(LineageBuilder& built, RestorationPlan& plan) {
  std::vector<const remat::Record*> order;
  while (!plan.is_done()) {
    remat::Record* const record = plan.next().record;
    REQUIRE(plan.next_is_ready());
    order.push_back(record);
    for (size_t k = 0; k < record->output_count; ++k) {
      remat::Value* output = record->outputs[k];
      if (output == nullptr || output->available()) continue;
      void* address = built.allocator.allocate(output->bytes);
      DeviceLock lock(built.mutex);
      if (output->live_and_evicted()) {
        built.residency.install(*output->storage, address);
      } else if (output->uses > 0) {
        built.residency.keep(*output, address);
      } else {
        built.allocator.free_locked(address);
      }
    }
    DeviceLock lock(built.mutex);
    plan.finish_next();
  }
  return order;
}

TEST_CASE("the evicted cone is run once, inputs first, and ghosts go when they are used up") {
  LineageBuilder built;
  Storage* x = built.root();
  Storage* a = built.result({x});
  Storage* b = built.result({a});
  Storage* c = built.result({a, b});
  Storage* d = built.result({b, c});
  const remat::Record* records[] = {a->current->producer, b->current->producer,
                                    c->current->producer, d->current->producer};
  for (Storage* each : {a, b, c, d}) built.evict(each);
  for (Storage* each : {a, b, c}) built.die(each);
  {
    RestorationPlan plan(built.contents, Mode::kFirm);
    plan.add(*d->current);
    CHECK(plan.steps() == 4);
    CHECK(plan.estimate_peak_bytes() == 3 * 64);  // a, b and c before a goes; b, c and d
    const auto order = run(built, plan);
    CHECK(std::equal(order.begin(), order.end(), std::begin(records), std::end(records)));
  }
  CHECK(!d->evicted);
  CHECK(built.residency.kept().empty());
  built.check();
}

TEST_CASE("what is available is not run again, but locked while it is needed") {
  LineageBuilder built;
  Storage* a = built.result({built.root()});
  Storage* b = built.result({a});
  built.evict(b);
  {
    RestorationPlan plan(built.contents, Mode::kFirm);
    plan.add(*b->current);
    CHECK(plan.steps() == 1);
    CHECK(a->current->locks == 1);
    CHECK(!built.evict(a));
  }
  CHECK(a->current->locks == 0);
  CHECK(a->current->uses == 0);
  CHECK(built.evict(a));
  built.check();
}

TEST_CASE("a lean plan locks only what the next record reads") {
  LineageBuilder built;
  Storage* a = built.result({built.root()});
  Storage* b = built.result({a});
  built.evict(b);
  {
    RestorationPlan plan(built.contents, Mode::kLean);
    plan.add(*b->current);
    CHECK(a->current->uses == 1);
    plan.lock_next();
    CHECK(!built.evict(a));
    plan.unlock_next();
    CHECK(built.evict(a));
    CHECK(!plan.next_is_ready());
  }
  built.check();
}

TEST_CASE("an abandoned plan leaves no use, lock or ghost") {
  LineageBuilder built;
  Storage* a = built.result({built.root()});
  Storage* b = built.result({a});
  Storage* c = built.result({b});
  for (Storage* each : {a, b, c}) built.evict(each);
  built.die(a);
  remat::Value& ghost = *b->current->producer->edges[0].value;
  {
    DeviceLock lock(built.mutex);
    RestorationPlan plan(built.contents, Mode::kFirm);
    plan.add(*c->current);
    lock.unlock();
    void* address = built.allocator.allocate(64);
    lock.lock();
    built.residency.keep(ghost, address);
    plan.finish_next();
    CHECK(ghost.kept != nullptr);
    CHECK(ghost.uses == 1);
  }
  CHECK(ghost.kept == nullptr);
  CHECK(ghost.uses == 0);
  built.check();
}

TEST_CASE("the deeper input is made first") {
  LineageBuilder built;
  Storage* x = built.root();
  Storage* shallow = built.result({x});
  Storage* deep = x;
  for (int k = 0; k < 5; ++k) deep = built.result({deep});
  Storage* both = built.result({shallow, deep});
  const remat::Record* last_but_one = shallow->current->producer;
  for (Storage* each : {shallow, deep, both}) built.evict(each);
  RestorationPlan plan(built.contents, Mode::kFirm);
  plan.add(*both->current);
  const auto order = run(built, plan);
  REQUIRE(order.size() == 3);
  CHECK(order[1] == last_but_one);
}

TEST_CASE("many inputs take linear time, and each of them is planned") {
  LineageBuilder built;
  Storage* x = built.root();
  std::vector<Storage*> parts;
  for (int k = 0; k < 5000; ++k) parts.push_back(built.result({x}));
  Storage* all = built.result(parts);
  for (Storage* each : parts) built.evict(each);
  built.evict(all);
  RestorationPlan plan(built.contents, Mode::kFirm);
  plan.add(*all->current);
  CHECK(plan.steps() == 5001);
}

TEST_CASE("an input without bytes and producer is an error that names the operator") {
  LineageBuilder built;
  Storage* x = built.root();
  Storage* a = built.result({x});
  Storage* b = built.result({a});
  for (Storage* each : {a, b}) built.evict(each);
  x->writing = true;  // as if it were being overwritten
  {
    RestorationPlan plan(built.contents, Mode::kFirm);
    CHECK_THROWS_WITH(plan.add(*b->current), Catch::Matchers::ContainsSubstring("test::operator") &&
                                                 Catch::Matchers::ContainsSubstring("64 bytes"));
  }
  x->writing = false;
  built.check();
}

}  // namespace
}  // namespace tidepool
