#include "remat/steps/step_sizes.h"

#include <cmath>
#include <vector>

#include "tests/support/catch.h"

namespace tidepool {
namespace {

using remat::StepSample;
using remat::StepSizes;

// A step of a network on texts of `rows` times `length` words: its storages and the times of its
// calls. Sizes are rounded up to multiples of `grain`.
struct TextStep {
  TextStep(size_t rows, size_t length, size_t grain = 1, double noise = 0) {
    const size_t words = rows * length;
    bytes = {words * 8,           50'000 * 128 * 4, words * 128 * 4,
             length * 128 * 4,    words * 128 * 4,  rows * 4 * length * length * 4,
             rows * (length - 1), rows * 8,         words * 128 * 4 + 4096,
             512 * 128 * 4};
    for (size_t& each : bytes) each = (each + grain - 1) / grain * grain;
    const double sign = words % 3 == 0 ? 1 : -1;
    for (const double ns : {2000.0, 3000.0 + 2.0 * static_cast<double>(words),
                            0.5 * static_cast<double>(words * length)}) {
      call_ns.push_back(static_cast<uint64_t>(ns * (1 + sign * noise)));
    }
  }
  std::vector<size_t> bytes;
  std::vector<uint64_t> call_ns;
};

std::optional<StepSizes> learn(const std::vector<TextStep>& steps) {
  std::vector<StepSample> samples;
  for (const TextStep& step : steps) samples.push_back({step.bytes, step.call_ns});
  return StepSizes::learn(samples);
}

// How many storages have other bytes than foreseen.
size_t wrong_bytes(const StepSizes& sizes, const TextStep& step) {
  std::vector<size_t> bytes;
  std::vector<uint64_t> call_ns;
  REQUIRE(sizes.foresee(step.bytes, bytes, call_ns));
  REQUIRE(bytes.size() == step.bytes.size());
  size_t wrong = 0;
  for (size_t k = 0; k < bytes.size(); ++k) {
    wrong += !StepSizes::about_equal(bytes[k], step.bytes[k], 1024);
  }
  return wrong;
}

double error_of_times(const StepSizes& sizes, const TextStep& step) {
  std::vector<size_t> bytes;
  std::vector<uint64_t> call_ns;
  REQUIRE(sizes.foresee(step.bytes, bytes, call_ns));
  double foreseen = 0, found = 0;
  for (size_t k = 0; k < call_ns.size(); ++k) {
    foreseen += static_cast<double>(call_ns[k]);
    found += static_cast<double>(step.call_ns[k]);
  }
  return std::abs(foreseen / found - 1);
}

TEST_CASE("three lengths tell all bytes and times of a text of another length") {
  const auto sizes = learn({{16, 100}, {16, 230}, {16, 40}});
  REQUIRE(sizes);
  for (const size_t length : {24, 64, 128, 999}) {
    CHECK(wrong_bytes(*sizes, {16, length}) == 0);
    std::vector<size_t> bytes;
    std::vector<uint64_t> call_ns;
    const TextStep step{16, length};
    REQUIRE(sizes->foresee(step.bytes, bytes, call_ns));
    CHECK(bytes == step.bytes);
    CHECK(error_of_times(*sizes, {16, length}) < 0.001);
  }
}

TEST_CASE("where rows and lengths differ it takes the sizes of two storages") {
  const auto sizes = learn({{16, 100}, {5, 310}, {40, 42}, {20, 83}});
  REQUIRE(sizes);
  CHECK(sizes->head() > 1);  // the words alone do not tell
  for (const size_t length : {24, 64, 128, 999}) {
    CHECK(wrong_bytes(*sizes, {1600 / length + 1, length}) == 0);
    CHECK(error_of_times(*sizes, {1600 / length + 1, length}) < 0.3);
  }
}

TEST_CASE("sizes that are rounded up are foreseen within what rounding does") {
  const auto sizes = learn({{16, 104, 512}, {5, 310, 512}, {40, 42, 512}, {24, 81, 512}});
  REQUIRE(sizes);
  for (const size_t length : {24, 64, 128, 1000}) {
    CHECK(wrong_bytes(*sizes, {1600 / length, length, 512}) == 0);
  }
}

TEST_CASE("a step that varies in another size than those that were seen is not foreseen") {
  // All of these have as many words.
  const auto sizes = learn({{16, 100}, {5, 320}, {40, 40}, {20, 80}});
  REQUIRE(sizes);
  const TextStep known{8, 200}, other{9, 200};
  CHECK(wrong_bytes(*sizes, known) == 0);
  std::vector<size_t> bytes;
  std::vector<uint64_t> call_ns;
  CHECK(!sizes->foresee(other.bytes, bytes, call_ns));
}

TEST_CASE("times that vary are foreseen in the mean") {
  const auto sizes = learn({{16, 100, 1, 0.1}, {16, 230, 1, 0.1}, {16, 41, 1, 0.1}, {16, 80}});
  REQUIRE(sizes);
  for (const size_t length : {50, 64, 128, 300}) {
    CHECK(error_of_times(*sizes, {16, length}) < 0.2);
  }
}

TEST_CASE("nothing is foreseen from one size, or where nothing differs") {
  CHECK(!learn({}));
  CHECK(!learn({{16, 100}}));
  CHECK(!learn({{16, 100}, {16, 100}}));
}

TEST_CASE("two sizes tell what is a product of sizes, and no sums") {
  std::vector<size_t> small{100, 800, 30'000}, large{300, 2400, 270'000};
  const std::vector<uint64_t> call_ns{5};
  const auto learn_two = [&] {
    const StepSample samples[] = {{small, call_ns}, {large, call_ns}};
    return StepSizes::learn(samples);
  };
  const auto sizes = learn_two();
  REQUIRE(sizes);
  std::vector<size_t> bytes, first{200};
  std::vector<uint64_t> ns;
  REQUIRE(sizes->foresee(first, bytes, ns));
  CHECK(bytes == std::vector<size_t>{200, 1600, 120'000});
  large[2] = 200'000;
  CHECK(!learn_two());
}

TEST_CASE("nothing is foreseen where what a step makes does not depend on how it begins") {
  std::vector<TextStep> steps{{16, 100}, {16, 230}, {16, 40}, {16, 128}};
  size_t odd = 1'000'003;
  for (TextStep& step : steps) step.bytes.push_back(odd = odd * 7 % 5'000'011);
  CHECK(!learn(steps));
  // If it is little, it does not matter.
  odd = 11;
  for (TextStep& step : steps) step.bytes.back() = odd = odd * 7 % 101;
  const auto sizes = learn(steps);
  REQUIRE(sizes);
  CHECK(sizes->bookkeeping_bytes() > 0);
}

TEST_CASE("sizes that no memory has are refused") {
  const auto sizes = learn({{16, 100}, {16, 230}, {16, 40}});
  REQUIRE(sizes);
  std::vector<size_t> bytes;
  std::vector<uint64_t> ns;
  std::vector<size_t> first(sizes->head(), size_t{1} << 43);
  CHECK(!sizes->foresee(first, bytes, ns));
  first.assign(sizes->head(), 0);
  CHECK(!sizes->foresee(first, bytes, ns));
}

TEST_CASE("bytes are about equal if they differ by little") {
  CHECK(StepSizes::about_equal(1000, 2000, 1024));
  CHECK(!StepSizes::about_equal(1000, 2000, 512));
  CHECK(StepSizes::about_equal(1'000'000, 1'010'000, 0));
  CHECK(!StepSizes::about_equal(1'000'000, 1'020'000, 1024));
}

}  // namespace
}  // namespace tidepool
