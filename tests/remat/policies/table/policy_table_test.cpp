#include "remat/policies/table/policy_table.h"

#include <stdexcept>

#include "remat/policies/needed_cost.h"
#include "remat/runtime.h"
#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"

namespace tidepool::remat {
namespace {

TEST_CASE("an unknown policy is named, and so are the known ones") {
  LineageBuilder built;
  CHECK(policy_names().size() > baseline_names().size());
  CHECK(policy_names()[0] == RuntimeConfig().policy);
  CHECK(baseline_names()[0] == "coop");
  for (const std::string& name : policy_names()) CHECK(make_policy(name, built.store) != nullptr);
  try {
    make_policy("dtr_eq", built.store);
    FAIL("accepted");
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    CHECK(text.find("'dtr_eq'") != std::string::npos);
    for (const std::string& name : policy_names()) CHECK(text.find(name) != std::string::npos);
  }
}

TEST_CASE("a policy is made by its old name, too") {
  LineageBuilder built;
  const auto policy = make_policy("need1", built.store);  // the old name
  CHECK(dynamic_cast<NeededCostPolicy*>(policy.get()) != nullptr);
}

}  // namespace
}  // namespace tidepool::remat
