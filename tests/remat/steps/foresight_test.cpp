#include "remat/steps/foresight.h"

#include <cmath>
#include <vector>

#include "tests/support/catch.h"

namespace tidepool {
namespace {

using remat::Foresight;
using remat::StepList;

// A step on `size` elements: 0: a = f(x)  1: b = g(a)  2: c = h(b, a). `site` is that of the last.
StepList step_of(size_t size, uint64_t site = 3, size_t calls = 3) {
  const size_t bytes[] = {size * 4, size * 8, size * size, size * 16};
  StepList list;
  const auto meet = [&](uint32_t number) {
    if (number == list.numbers()) list.bytes.push_back(bytes[number]);
  };
  for (uint32_t k = 0; k < calls; ++k) {
    StepList::Entry entry{k == 2 ? site : k + 1, list.length_ns,
                          static_cast<uint32_t>(list.operands.size()), k == 2 ? 2u : 1u};
    list.mix(entry.site);
    for (uint32_t n = 0; n < entry.operands; ++n) {
      meet(k - n);
      list.operands.push_back(k - n);
      list.mix(k - n);
    }
    list.entries.push_back(entry);
    list.length_ns += size * (k + 1);
    meet(k + 1);
    list.outputs.push_back({k, k + 1, bytes[k + 1]});
    list.mix_output(list.outputs.back());
  }
  return list;
}

TEST_CASE("steps of one form differ in their fingerprints only") {
  CHECK(step_of(1000).form == step_of(2000).form);
  CHECK(step_of(1000).fingerprint != step_of(2000).fingerprint);
  CHECK(step_of(1000).form != step_of(1000, 4).form);
  CHECK(step_of(1000).fingerprint == step_of(1000).fingerprint);
  CHECK(step_of(1000).call_ns() == std::vector<uint64_t>{1000, 2000, 3000});
}

TEST_CASE("a step of a new size is foreseen from its beginning") {
  const StepList small = step_of(1000), large = step_of(3000), other = step_of(500, 4);
  const StepList* const known[] = {&other, &small, &large};
  Foresight foresight;
  CHECK(!foresight.may_foresee(100, 1));
  foresight.learn({known + 1, 1}, false);
  CHECK(!foresight.may_foresee(100, 1));
  foresight.learn({known + 1, 2}, false);
  CHECK(!foresight.may_foresee(0, 1));
  REQUIRE(foresight.may_foresee(2, 1));
  const StepList whole = step_of(2000);
  const auto foreseen = foresight.foresee(step_of(2000, 3, 1), 1, known);
  REQUIRE(foreseen);
  CHECK(foreseen->fingerprint == whole.fingerprint);
  CHECK(foreseen->form == whole.form);
  CHECK(foreseen->outputs == whole.outputs);
  CHECK(foreseen->bytes == whole.bytes);
  CHECK(foreseen->call_ns() == whole.call_ns());
  CHECK(foreseen->length_ns == whole.length_ns);
  CHECK(foresight.bookkeeping_bytes() > 0);
  // Once in a step.
  CHECK(!foresight.may_foresee(2, 1));
  CHECK(foresight.may_foresee(2, 2));
  foresight.compare(*foreseen, whole, true);
  CHECK(foresight.statistics().steps == 1);
  CHECK(foresight.statistics().kept == 1);
  CHECK(foresight.statistics().compared == 1);
  CHECK(foresight.statistics().most_bytes_error == 0);
  CHECK(foresight.statistics().most_time_error == 0);
}

TEST_CASE("a step that begins otherwise is not foreseen") {
  const StepList small = step_of(1000), large = step_of(3000);
  const StepList* const known[] = {&small, &large};
  Foresight foresight;
  foresight.learn(known, false);
  StepList begun = step_of(2000, 3, 1);
  begun.entries[0].site = 7;
  CHECK(!foresight.foresee(begun, 1, known));
  CHECK(!foresight.foresee(step_of(2000, 3, 1), 2, {}));
  // The second result is not as the first says.
  begun = step_of(2000, 3, 2);
  begun.outputs[1].bytes += begun.outputs[1].bytes / 10;
  CHECK(!foresight.foresee(begun, 3, known));
  CHECK(foresight.statistics().steps == 0);
}

TEST_CASE("errors are shares of what was found") {
  Foresight foresight;
  StepList found = step_of(2000), foreseen = found;
  foreseen.outputs[1].bytes /= 2;
  foreseen.length_ns = foreseen.length_ns * 5 / 4;
  foresight.compare(foreseen, found, false);
  foresight.compare(found, found, true);
  const auto total = static_cast<double>(2000 * 8 + 2000 * 2000 + 2000 * 16);
  CHECK(std::abs(foresight.statistics().most_bytes_error - 2e6 / total) < 1e-9);
  CHECK(foresight.statistics().bytes_errors == foresight.statistics().most_bytes_error);
  CHECK(std::abs(foresight.statistics().most_time_error - 0.25) < 1e-9);
  CHECK(foresight.statistics().kept == 1);
  // A step that did something else has no errors.
  foresight.compare(foreseen, step_of(2000, 9), false);
  CHECK(foresight.statistics().compared == 2);
}

TEST_CASE("what was foreseen well is not learnt anew, but from more sizes") {
  // The third size does not fit the others: what was learnt from these goes.
  const StepList small = step_of(1000), large = step_of(3000);
  StepList odd = step_of(2000);
  for (size_t& bytes : odd.bytes) bytes = bytes * 17 % 9'999'991;
  const StepList* const known[] = {&small, &large, &odd};
  Foresight foresight;
  foresight.learn({known, 2}, false);
  REQUIRE(foresight.may_foresee(2, 1));
  foresight.learn({known + 1, 2}, true);
  CHECK(foresight.may_foresee(2, 1));
  foresight.learn(known, false);
  CHECK(!foresight.may_foresee(2, 1));
}

}  // namespace
}  // namespace tidepool
