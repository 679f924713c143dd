#include "remat/lineage/mutants.h"

#include <set>
#include <stdexcept>
#include <string>

#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

TEST_CASE("mutants have names of their own, of rules that there are") {
  std::set<std::string> names;
#define TIDEPOOL_MUTANT_ENTRY(rule, name, text) \
  CHECK((rule >= 1 && rule <= 10));             \
  CHECK(std::string(text).size() > 10);         \
  CHECK(names.insert(#rule "." #name).second);
  TIDEPOOL_MUTANT_TABLE(TIDEPOOL_MUTANT_ENTRY)
#undef TIDEPOOL_MUTANT_ENTRY
  CHECK(names.count("2.in_place") == 1);
}

#ifdef TIDEPOOL_MUTANTS
TEST_CASE("a mutant is found by its name, and an unknown name is refused") {
  CHECK(mutant_by_name("") == Mutant::kNone);
  CHECK(mutant_by_name("1.view_offset") == Mutant::k1_view_offset);
  CHECK(mutant_by_name("9.view") == Mutant::k9_view);
  CHECK_THROWS_AS(mutant_by_name("2.inplace"), std::invalid_argument);
}
#else
static_assert(!TIDEPOOL_MUTANT(2, in_place), "an ordinary build has no mutants");
#endif

}  // namespace
}  // namespace tidepool::remat
