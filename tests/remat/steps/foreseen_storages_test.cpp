#include "remat/steps/foreseen_storages.h"

#include <vector>

#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"

namespace tidepool {
namespace {

using remat::StepHistory;
using remat::Storage;

// Steps of calls that read one storage each, and make one.
struct Steps {
  void call(uint64_t site, Storage* read, Storage* made = nullptr) {
    storages.before_meeting({&read, 1});
    const StepHistory::Call call = history.begin(site, {&read, 1}, now_ns += 10);
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

  StepHistory history;
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
  CHECK(steps.storages.next_use(*first) == StepHistory::kNever);
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
    CHECK(steps.storages.next_use(*second) == StepHistory::kUnknown);
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
  for (int k = 0; k < 3; ++k) {  // two forms of steps in turn
    steps.call(1, first), steps.call(2, second), steps.call(3, second), steps.end();
    steps.call(4, second), steps.call(4, first), steps.end();
  }
  CHECK_FALSE(steps.history.expects_repetition());
  steps.call(1, first);
  CHECK(steps.storages.time_until_use_ns(*first) == 2 * 30 - 10);  // some time after this step
  CHECK(remat::ForeseenStorages(nullptr).time_until_use_ns(*first) == 0);
}

// Two optimizers' steps, as of a generator and a discriminator.
TEST_CASE("what steps of two forms in turn have is known before the steps have met it") {
  LineageBuilder built;
  Storage* const shared = built.root();
  Storage* const first = built.root();
  Storage* const second = built.root();
  Storage* const made = built.root();
  Steps steps;
  const auto one = [&] { steps.call(1, shared), steps.call(2, first, made), steps.end(); };
  const auto other = [&] {
    steps.call(3, made), steps.call(4, second), steps.call(5, shared), steps.end();
  };
  for (int k = 0; k < 4; ++k) one(), other();
  SECTION("from the beginning") {
    CHECK(steps.storages.next_use(*shared) == 0);
    CHECK(steps.storages.next_use(*first) == 1);
    CHECK(steps.storages.next_use(*second) == StepHistory::kUnknown);
    CHECK_FALSE(steps.storages.is_known(*made));  // the step makes another
    one();
    CHECK(steps.storages.next_use(*made) == 0);
    CHECK(steps.storages.next_use(*second) == 1);
    CHECK(steps.storages.next_use(*shared) == 2);
    CHECK_FALSE(steps.storages.is_known(*first));
  }
  SECTION("not if it has died") {
    steps.storages.forget(*first);
    CHECK_FALSE(steps.storages.is_known(*first));
    steps.storages.forget(*second);
    one();
    CHECK_FALSE(steps.storages.is_known(*second));
    CHECK(steps.storages.next_use(*shared) == 2);
  }
  SECTION("once the step turns out to be of the other form") {
    steps.call(3, made);
    CHECK(steps.storages.is_met(*made));
    CHECK(steps.storages.next_use(*second) == 1);
    CHECK(steps.storages.next_use(*shared) == 2);
    CHECK_FALSE(steps.storages.is_known(*first));
  }
  SECTION("not in a step of a form that is new") {
    steps.call(6, second);
    CHECK(steps.storages.next_use(*first) == StepHistory::kUnknown);
    CHECK(steps.storages.next_use(*shared) == StepHistory::kUnknown);
  }
  steps.storages.check_invariants();
}

TEST_CASE("what steps of one form have is known whatever their sizes") {
  LineageBuilder built;
  Storage* const read = built.root();
  Storage* const state = built.root();
  std::vector<Storage*> made;
  for (const size_t bytes : {64, 128}) {
    made.push_back(built.root());
    made.back()->current->bytes = bytes;
  }
  Steps steps;
  for (const int size : {0, 1, 0, 1, 0}) {
    steps.call(1, read, made[size]), steps.call(2, state);
    steps.end();
  }
  CHECK(steps.history.expects_repetition());
  CHECK(steps.storages.next_use(*state) == 1);
  steps.call(1, read, made[0]);  // the other size was expected
  REQUIRE(steps.history.matching());
  CHECK(steps.storages.next_use(*state) == 1);
}

}  // namespace
}  // namespace tidepool
