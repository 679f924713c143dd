#include "remat/steps/foreseen_storages.h"

#include <vector>

#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"

namespace tidepool {
namespace {

using remat::Storage;

// Steps of calls that read one storage each, and make one.
struct Steps {
  void call(uint64_t site, Storage* read, Storage* made = nullptr) {
    storages.before_meeting({&read, 1});
    const remat::StepHistory::Call call = history.begin(site, {&read, 1}, now_ns += 10);
    storages.after_meeting({&read, 1});
    if (made == nullptr) return;
    storages.before_meeting({&made, 1});
    history.finish(call, {&made, 1});
    storages.after_meeting({&made, 1});
  }
  void end() {
    history.end_step(now_ns += 10);
    storages.end_step();
    storages.check_invariants();
  }

  remat::StepHistory history;
  remat::ForeseenStorages storages{&history};
  uint64_t now_ns = 0;
};

TEST_CASE("what two steps alike have in common is known before the third has met it") {
  LineageBuilder built;
  Storage* const first = built.root();
  Storage* const second = built.root();
  Storage* const made = built.root();
  Steps steps;
  for (int k = 0; k < 2; ++k) {
    steps.call(1, first, made);
    steps.call(2, second);
    steps.end();
  }
  const uint32_t number = second->step_number;
  CHECK(steps.storages.find(number) == second);
  CHECK(steps.storages.next_use(*second) == 1);
  CHECK(steps.storages.find(made->step_number) == nullptr);  // the step will make another
  CHECK_FALSE(steps.storages.is_met(*second));
  steps.call(1, first, made);
  CHECK(steps.storages.find(made->step_number) == made);
  CHECK(steps.storages.next_use(*first) == remat::StepHistory::kNever);
  SECTION("it dies") {
    steps.storages.forget(*second);
    CHECK(steps.storages.find(number) == nullptr);
    CHECK_FALSE(steps.storages.is_known(*second));
  }
  SECTION("the step meets it") {
    steps.call(2, second);
    CHECK(steps.storages.is_met(*second));
    CHECK(steps.storages.find(number) == second);
  }
  SECTION("the step is another one") {
    steps.call(3, first);
    CHECK(steps.storages.next_use(*second) == remat::StepHistory::kUnknown);
  }
  steps.storages.check_invariants();
}

TEST_CASE("what a step has used for the last time is used again by the next one") {
  LineageBuilder built;
  Storage* const first = built.root();
  Storage* const second = built.root();
  Steps steps;
  CHECK(steps.storages.time_until_use_ns(*first) == 0);
  for (int k = 0; k < 2; ++k) {
    steps.call(1, first);
    steps.call(2, second);
    steps.call(3, second);
    steps.end();
  }
  CHECK(steps.storages.time_until_use_ns(*second) == 10);  // the step has not met it
  steps.call(1, first);
  // Two calls more, and a third up to the end, which takes 10 ns as well.
  CHECK(steps.storages.time_until_use_ns(*first) == 20);
  steps.call(2, second);
  CHECK(steps.storages.time_until_use_ns(*second) == 1);  // the next call
  steps.call(4, first);
  CHECK(steps.storages.time_until_use_ns(*second) == 0);  // it is another step
  steps.end();
  for (int k = 0; k < 3; ++k) {  // two kinds of steps in turn
    steps.call(1, first), steps.call(2, second), steps.call(3, second), steps.end();
    steps.call(4, second), steps.call(4, first), steps.end();
  }
  CHECK_FALSE(steps.history.expects_repetition());
  steps.call(1, first);
  CHECK(steps.storages.time_until_use_ns(*first) == 2 * 30 - 10);  // some time after this step
  CHECK(remat::ForeseenStorages(nullptr).time_until_use_ns(*first) == 0);
}

}  // namespace
}  // namespace tidepool
