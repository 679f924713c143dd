#include "remat/record/merged_operands.h"

#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

using Operand = MergedOperands::Operand;

TEST_CASE("each storage is there once, and what is written is not among what is read") {
  MergedOperands merged;
  const std::vector<Operand> operands = {
      {4, Access::kRead}, {2, Access::kUpdate}, {4, Access::kRead},   {7, Access::kOverwrite},
      {2, Access::kRead}, {7, Access::kRead},   {9, Access::kUpdate}, {9, Access::kSideWrite}};
  merged.merge(operands);
  REQUIRE(merged.reads().size() == 1);
  CHECK(merged.reads()[0] == 4);
  REQUIRE(merged.writes().size() == 3);
  CHECK(number(merged.writes()[0].storage) == 2);
  CHECK(merged.writes()[0].access == Access::kUpdate);
  CHECK(number(merged.writes()[1].storage) == 7);
  CHECK(merged.writes()[1].access == Access::kUpdate);  // it is read, too
  CHECK(number(merged.writes()[2].storage) == 9);
  CHECK(merged.writes()[2].access == Access::kSideWrite);
}

TEST_CASE("an overwrite alone stays one") {
  MergedOperands merged;
  const std::vector<Operand> operands = {{1, Access::kOverwrite}, {2, Access::kRead}};
  merged.merge(operands);
  REQUIRE(merged.writes().size() == 1);
  CHECK(merged.writes()[0].access == Access::kOverwrite);
}

TEST_CASE("many operands are merged as few are") {
  MergedOperands merged;
  std::vector<Operand> operands;
  for (uint32_t k = 0; k < 1000; ++k) {
    operands.push_back({k % 100, k % 100 == 50 && k > 500 ? Access::kUpdate : Access::kRead});
  }
  merged.merge(operands);
  CHECK(merged.reads().size() == 99);
  CHECK(merged.reads()[98] == 99);
  REQUIRE(merged.writes().size() == 1);
  CHECK(number(merged.writes()[0].storage) == 50);
}

TEST_CASE("arguments are kept where merging loses their order or number") {
  MergedOperands merged;
  auto arguments = [&](const std::vector<Operand>& operands) {
    merged.merge(operands);
    return merged.arguments().size();
  };
  CHECK(arguments({}) == 0);
  CHECK(arguments({{1, Access::kUpdate}, {2, Access::kRead}, {3, Access::kRead}}) == 0);
  CHECK(arguments({{1, Access::kRead}, {2, Access::kRead}, {1, Access::kRead}}) == 3);
  CHECK(arguments({{1, Access::kRead}, {2, Access::kUpdate}}) == 2);
  CHECK(number(merged.arguments()[1].storage) == 2);
  CHECK(merged.arguments()[1].access == Access::kUpdate);
  CHECK(arguments({{1, Access::kUpdate}, {1, Access::kRead}}) == 2);
}

}  // namespace
}  // namespace tidepool::remat
