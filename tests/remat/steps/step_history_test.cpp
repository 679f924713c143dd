#include "remat/steps/step_history.h"

#include <vector>

#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"

namespace tidepool {
namespace {

using remat::StepHistory;
using remat::Storage;

// A job that does the same in each step, on new storages, but for parameter w:
//   0: a = f(x, w)   1: b = g(a)   2: c = h(b, a)   3: w += c
// Each operator takes 10 ns.
struct Job {
  StepHistory step_history;
  LineageBuilder built;
  Storage* w = built.root();
  Storage *x = nullptr, *a = nullptr, *b = nullptr, *c = nullptr;
  uint64_t now_ns = 1000;

  Storage* call(uint64_t site, const std::vector<Storage*>& operands, bool makes = true) {
    const auto call = step_history.begin(site, operands, now_ns);
    now_ns += 10;
    Storage* made = makes ? built.root(64) : nullptr;
    step_history.finish(call, {&made, 1});
    step_history.check_invariants();
    return made;
  }
  void first() { x = built.root(), a = call(1, {x, w}); }
  void second() { b = call(2, {a}); }
  void third() { c = call(3, {b, a}); }
  void fourth() { call(4, {w, c}, false); }
  void step() {
    first(), second(), third(), fourth();
    step_history.end_step(now_ns);
  }
};

TEST_CASE("steps that repeat take no more memory than a few of them") {
  Job job;
  CHECK(job.step_history.bookkeeping_bytes() == 0);
  for (int k = 0; k < 4; ++k) job.step();
  const size_t bytes = job.step_history.bookkeeping_bytes();
  CHECK(bytes > 4 * (24 + 2 * 4));
  for (int k = 0; k < 20; ++k) job.step();
  CHECK(job.step_history.bookkeeping_bytes() == bytes);
}

TEST_CASE("nothing is foreseen in the first step, all in the second") {
  Job job;
  job.first();
  CHECK(!job.step_history.matching());
  CHECK(job.step_history.next_use(*job.a) == StepHistory::kUnknown);
  job.second(), job.third(), job.fourth();
  job.step_history.end_step(job.now_ns);
  CHECK(job.step_history.matching());
  job.first();
  CHECK(job.step_history.next_use(*job.w) == 3);
  CHECK(job.step_history.next_use(*job.a) == 1);
  CHECK(job.step_history.next_use(*job.x) == StepHistory::kNever);
  CHECK(job.step_history.time_until_ns(3) == 20);  // position 1 is next
  CHECK(job.step_history.time_until_ns(1) == 0);
  CHECK(job.step_history.time_until_ns(StepHistory::kNever) == 70);  // 30 ns, and a step of 40
  job.second();
  CHECK(job.step_history.next_use(*job.a) == 2);
  CHECK(job.step_history.next_use(*job.b) == 2);
  job.third();
  CHECK(job.step_history.next_use(*job.a) == StepHistory::kNever);
  CHECK(job.step_history.next_use(*job.c) == 3);
  job.fourth();
  job.step_history.end_step(job.now_ns);
  CHECK(job.step_history.repeated());
}

TEST_CASE("what the step has not met yet is unknown") {
  Job job;
  job.step();
  CHECK(job.step_history.next_use(*job.w) == StepHistory::kUnknown);
  CHECK(job.step_history.next_use(*job.c) == StepHistory::kUnknown);  // of the last step
}

// Each is a difference from the last step on its own; then a step without one.
TEST_CASE("from the first difference on nothing is foreseen, until the next step") {
  for (int kind = 0; kind < 7; ++kind) {
    INFO("kind " << kind);
    Job job;
    job.step();
    job.first();
    REQUIRE(job.step_history.matching());
    switch (kind) {
      case 0:
        job.call(9, {job.a});
        break;  // another operator
      case 1:
        job.call(2, {job.x});
        break;  // another storage
      case 2:
        job.call(2, {job.a, job.x});
        break;  // one more
      case 3:
        job.call(2, {});
        break;  // none
      case 4:
        job.call(2, {job.a}, false);
        break;   // its result is no memory of ours
      case 5: {  // larger
        Storage* operands[] = {job.a};
        const auto call = job.step_history.begin(2, operands, job.now_ns);
        Storage* made = job.built.root(128);
        job.step_history.finish(call, {&made, 1});
        break;
      }
      default:
        job.step_history.give_up();
        break;
    }
    if (kind == 4) job.third();  // c has b's number
    CHECK(!job.step_history.matching());
    CHECK(job.step_history.next_use(*job.a) == StepHistory::kUnknown);
    job.b = job.a;
    job.third();
    CHECK(!job.step_history.matching());
    job.step_history.end_step(job.now_ns);
    job.step();  // as the first
    CHECK(job.step_history.repeated());
    job.step();
    CHECK(job.step_history.repeated());
    job.first();
    CHECK(job.step_history.next_use(*job.w) == 3);
  }
}

// Of two kinds: a short step does not make c.
struct MixedJob : Job {
  void step(bool is_short) {
    first(), second();
    if (!is_short) third(), fourth();
    step_history.end_step(now_ns);
  }
  uint32_t expected() const {
    return static_cast<uint32_t>(step_history.expected_outputs().size());
  }
};

TEST_CASE("steps of two kinds in turn are foreseen, each by the last of its kind") {
  MixedJob job;
  job.step(false);
  job.step(true);
  const uint64_t short_one = job.step_history.last_fingerprint();
  CHECK(!job.step_history.repeated());
  job.step(false);
  CHECK(job.step_history.repeated());
  CHECK(job.step_history.expected_fingerprint() == short_one);
  job.first();
  CHECK(job.step_history.next_use(*job.a) == 1);
  CHECK(job.step_history.next_use(*job.w) == StepHistory::kNever);
  job.second();
  CHECK(job.step_history.next_use(*job.a) == StepHistory::kNever);
  job.step_history.end_step(job.now_ns);
  CHECK(job.step_history.repeated());
  CHECK(job.step_history.last_fingerprint() == short_one);
  job.first();
  CHECK(job.step_history.next_use(*job.w) == 3);
  job.second();
  CHECK(job.step_history.next_use(*job.a) == 2);
}

TEST_CASE("at a difference another step that begins alike is expected") {
  MixedJob job;
  job.step(false), job.step(true), job.step(false);
  job.first(), job.second();
  REQUIRE(job.expected() == 2);
  const uint32_t before = job.step_history.expectation();
  job.third();
  CHECK(job.step_history.matching());
  CHECK(job.step_history.expectation() != before);
  CHECK(job.expected() == 3);
  CHECK(job.step_history.next_use(*job.w) == 3);
  job.fourth();
  CHECK(job.step_history.next_use(*job.w) == StepHistory::kNever);
  job.call(9, {job.w});
  CHECK(!job.step_history.matching());
  CHECK(job.step_history.expected_fingerprint() == 0);
}

TEST_CASE("what comes now and then is not expected, until it comes as often") {
  MixedJob job;
  for (int k = 0; k < 4; ++k) job.step(false);
  job.step(true);
  job.step(false);
  CHECK(job.expected() == 3);
  for (int k = 0; k < 4; ++k) job.step(true), job.step(false);
  CHECK(job.expected() == 2);
}

TEST_CASE("kinds of steps that were longest ago are forgotten") {
  Job job;
  job.step();
  for (uint64_t site = 100; site < 100 + StepHistory::kKinds; ++site) {
    job.call(site, {job.w});
    job.step_history.end_step(job.now_ns);
    CHECK(!job.step_history.repeated());
  }
  job.call(100, {job.w});
  job.step_history.end_step(job.now_ns);
  CHECK(job.step_history.repeated());
  job.step();
  CHECK(!job.step_history.repeated());
}

TEST_CASE("a step that goes on longer than the last is a difference") {
  Job job;
  job.step();
  job.first(), job.second(), job.third(), job.fourth();
  CHECK(job.step_history.matching());
  job.second();
  CHECK(!job.step_history.matching());
}

TEST_CASE("what begins in one step and ends in the next says nothing") {
  Job job;
  job.step();
  Storage* operands[] = {job.w};
  const auto call = job.step_history.begin(1, operands, job.now_ns);
  job.step_history.end_step(job.now_ns);
  Storage* made = job.built.root();
  job.step_history.finish(call, {&made, 1});
  CHECK(made->step_seen == 0);
  job.step_history.check_invariants();
}

TEST_CASE("two marks in a row are one") {
  Job job;
  job.step();
  job.step_history.end_step(job.now_ns);
  job.first();
  CHECK(job.step_history.matching());
}

// A job whose steps have other sizes each: 0: a = f(x, w)   1: b = g(a)   2: c = h(b, a)
struct SizedJob {
  StepHistory step_history;
  LineageBuilder built;
  Storage* w = built.root();
  Storage *a = nullptr, *b = nullptr, *c = nullptr;
  uint64_t now_ns = 1000;

  Storage* call(uint64_t site, const std::vector<Storage*>& operands, size_t bytes, uint64_t ns) {
    const auto call = step_history.begin(site, operands, now_ns);
    now_ns += ns;
    Storage* made = built.root(bytes);
    step_history.finish(call, {&made, 1});
    step_history.check_invariants();
    return made;
  }
  void first(size_t size) { a = call(1, {built.root(size), w}, size * 4, size); }
  void second(size_t size) { b = call(2, {a}, size * size / 100, 2 * size); }
  void third(size_t size, size_t more = 0) { c = call(3, {b, a}, size * 2 + more, 3 * size); }
  void end() {
    step_history.end_step(now_ns);
    step_history.check_invariants();
  }
  void step(size_t size) { first(size), second(size), third(size), end(); }
};

TEST_CASE("a step of a size that was never seen is foreseen from how it begins") {
  SizedJob job;
  job.step(1000);
  CHECK(!job.step_history.form_repeated());
  job.step(3000);
  CHECK(job.step_history.form_repeated());
  CHECK(!job.step_history.repeated());
  job.first(2000);
  REQUIRE(job.step_history.matching());
  CHECK(job.step_history.foreseeing());
  CHECK(job.step_history.take_foreseen());
  CHECK(!job.step_history.take_foreseen());
  CHECK(job.step_history.expected_outputs()[2].bytes == 4000);
  CHECK(job.step_history.next_use(*job.a) == 1);
  CHECK(job.step_history.time_until_ns(2) == 4000);
  const uint64_t foreseen = job.step_history.expected_fingerprint();
  job.second(2000), job.third(2000), job.end();
  CHECK(job.step_history.last_fingerprint() == foreseen);
  CHECK(job.step_history.last_foreseen() == foreseen);
  CHECK(job.step_history.foresight().steps == 1);
  CHECK(job.step_history.foresight().kept == 1);
  CHECK(job.step_history.foresight().most_bytes_error == 0);
  // A size that was seen is remembered, and not foreseen.
  job.step(2000);
  CHECK(job.step_history.repeated());
  CHECK(job.step_history.last_foreseen() == 0);
  CHECK(job.step_history.foresight().steps == 1);
}

TEST_CASE("at the first difference from what is foreseen nothing is foreseen") {
  SizedJob job;
  job.step(1000), job.step(3000);
  job.first(2000), job.second(2000);
  REQUIRE(job.step_history.foreseeing());
  SECTION("other bytes") {
    job.third(2000, 2000);
    job.end();
    CHECK(job.step_history.foresight().compared == 1);
    CHECK(job.step_history.foresight().most_bytes_error > 0.03);
  }
  SECTION("another operator") {
    job.call(9, {job.a}, 10, 10);
    CHECK(!job.step_history.matching());
    job.end();
    CHECK(job.step_history.foresight().compared == 0);
  }
  SECTION("an end before the last call") { job.end(); }
  CHECK(job.step_history.last_foreseen() == 0);
  CHECK(job.step_history.foresight().steps == 1);
  CHECK(job.step_history.foresight().kept == 0);
}

TEST_CASE("bytes that are a little off are as foreseen") {
  SizedJob job;
  job.step(1000), job.step(3000);
  job.first(2000), job.second(2000), job.third(2000, 8);
  REQUIRE(job.step_history.foreseeing());
  const uint64_t foreseen = job.step_history.expected_fingerprint();
  job.end();
  CHECK(job.step_history.last_foreseen() == foreseen);
  CHECK(job.step_history.last_fingerprint() != foreseen);
}

}  // namespace
}  // namespace tidepool
