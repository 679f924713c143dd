#include "remat/policies/policy.h"

#include <cmath>
#include <stdexcept>

#include "remat/policies/table/policy_table.h"
#include "remat/runtime.h"
#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"

namespace tidepool::remat {
namespace {

// Gives back what it is asked, with needed-cost's unit.
class Ratio final : public Policy {
 public:
  double price(Storage&, const Circumstances&) override { return 0; }
};

TEST_CASE("a fixed price is never free, never above the greatest, and never a barrier") {
  const Ratio policy;
  CHECK(policy.fixed(0).value == 1);
  CHECK(policy.fixed(1e-12).value == 1);
  CHECK(policy.fixed(1e300).value == Price::kGreatest);
  CHECK(policy.fixed(INFINITY).value == Price::kGreatest);
  CHECK(policy.fixed(NAN).value == Price::kGreatest);
  CHECK(!policy.fixed(1e300).barrier);
}

TEST_CASE("fixed prices are proportional over the range that occurs") {
  const Ratio policy;
  CHECK(policy.fixed(2).value == 2 * policy.fixed(1).value);
  CHECK(policy.fixed(1e-5).value > 10'000);
  CHECK(policy.fixed(10'000).value < Price::kGreatest);
}

// Costs up to minutes, staleness up to hours, sizes from 64 bytes to 64 GiB: other than saturated,
// and other than the least, or else everything would be equally cheap.
TEST_CASE("every policy's unit holds what it charges") {
  for (const std::string& name : policy_names()) {
    INFO(name);
    LineageBuilder built(name);
    const uint64_t second = 1'000'000'000;
    Storage* large = built.result({built.root()}, second);
    Storage* small = built.result({built.root()}, second / 100'000);
    large->current->bytes = size_t{4} << 30;
    small->current->bytes = 4096;
    const Circumstances now{second / 1000, 0};
    for (Storage* storage : {large, small}) {
      const Price price = built.policy->fixed(built.policy->price(*storage, now));
      CHECK(price.value > 30);
      CHECK(price.value < Price::kGreatest);
    }
  }
}

}  // namespace
}  // namespace tidepool::remat
