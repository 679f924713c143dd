#include "remat/residency/chaos_odds.h"

#include "tests/support/catch.h"
#include "tests/support/remat_fixture.h"

namespace tidepool {
namespace {

using remat::chaos_odds;
using remat::kReplaysPerOperator;
using Tensor = RematFixture::Tensor;

TEST_CASE("chaos strikes to different extents, at random moments once much was replayed") {
  SplitMix random(3);
  SplitMix again(3);
  const bool much = GENERATE(false, true);
  size_t everything = 0;
  size_t parts = 0;
  for (uint64_t k = 1; k <= 1000; ++k) {
    const uint64_t replayed = much ? k * kReplaysPerOperator : 0;
    const uint64_t odds = chaos_odds(k, replayed, random);
    CHECK(odds == chaos_odds(k, replayed, again));  // one seed, the same moments
    everything += odds == 1;
    parts += odds > 1;
  }
  CHECK(everything > (much ? 30 : 150));
  CHECK(parts > 3 * everything / 2);
  CHECK((everything + parts == 1000) == !much);
}

TEST_CASE("chaos waits while more was replayed than it may") {
  SplitMix random(3);
  size_t strikes = 0;
  for (int k = 0; k < 100; ++k) strikes += chaos_odds(5, 5 * kReplaysPerOperator, random) > 0;
  CHECK(strikes > 0);
  for (int k = 0; k < 100; ++k) CHECK(chaos_odds(5, 5 * kReplaysPerOperator + 1, random) == 0);
}

TEST_CASE("a chain that is read backwards is replayed a bounded number of times") {
  constexpr size_t kLength = 100;  // read backwards, as the backward pass of a network does
  remat::RuntimeConfig config;
  config.chaos = GENERATE(remat::Chaos::kBounded, remat::Chaos::kOperator);
  RematFixture job(1 << 20, config);
  size_t operators = 0;
  for (int step = 0; step < 5; ++step) {
    RematFixture::Tensors chain = {job.input()};
    for (size_t k = 0; k < kLength; ++k) chain.push_back(job.pure({chain.back()}));
    for (size_t k = kLength; k > 1; --k) job.drop(job.pure({chain[k], chain[k - 1]}));
    operators += 2 * kLength - 1;
    for (Tensor tensor : chain) CHECK(job.matches(tensor));
    for (Tensor tensor : chain) job.drop(tensor);
  }
  const auto replayed = job.statistics().operators_replayed;
  if (config.chaos == remat::Chaos::kBounded) {
    CHECK(replayed > operators);
    CHECK(replayed <= kReplaysPerOperator * operators + kLength);
  } else {
    CHECK(replayed > 2 * kReplaysPerOperator * operators);
  }
  job.check();
}

}  // namespace
}  // namespace tidepool
