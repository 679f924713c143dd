// Operation-list fuzzing: random lists of operations run on a model, which holds what is under test
// and an oracle that says what it has to do. One seed decides a list. Operands are plain numbers
// that the model resolves when the operation runs, so that any part of a list is a list, too.
// A failure names the seed and the operation; with TIDEPOOL_FUZZ_SEED=SEED that list alone runs, in
// child processes, and is printed as C++ once nothing more can be left out of it.
// TIDEPOOL_FUZZ_OPERATIONS sets how many operations run in all.
// A model has
//   enum Kind, and `static constexpr OperationKind kKinds[]` in the same order;
//   Model(uint64_t seed);
//   bool run(const Operation&): false where there was nothing to do; compares by expect();
//   void finish(): what has to hold in the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/support/catch.h"

namespace tidepool::test {

struct Operation {
  unsigned kind = 0;
  uint32_t a = 0, b = 0, c = 0;
};

struct OperationKind {
  const char* name;
  unsigned weight;  // how often, relative to the others
};

// Throws where `holds` is false. Cheaper than a CHECK, for comparisons by the million.
void expect(bool holds, std::source_location place = std::source_location::current());

[[noreturn]] void fail_unequal(const std::string& found, const std::string& expected,
                               std::source_location place);

template <typename Found, typename Expected>
void expect_equal(const Found& found, const Expected& expected,
                  std::source_location place = std::source_location::current()) {
  if (found == static_cast<Found>(expected)) [[likely]]
    return;
  auto text = [](const auto& value) {
    using Value = std::decay_t<decltype(value)>;
    if constexpr (std::is_integral_v<Value>)
      return std::to_string(value);
    else if constexpr (std::is_enum_v<Value>)
      return std::to_string(static_cast<uint64_t>(value));
    else
      return std::string("another value");
  };
  fail_unequal(text(found), text(static_cast<Found>(expected)), place);
}

// The first seed of a test, and how many lists of `length` operations it runs: 100,000 operations
// in all (20,000 under sanitizers), or 10,000,000 in a full run.
struct FuzzPlan {
  uint64_t first_seed = 0;
  uint64_t lists = 0;
};
FuzzPlan fuzz_plan(size_t length);

namespace detail {

using RunList = std::function<void(uint64_t seed, std::span<const Operation>)>;
// What failed, or "".
std::string fuzz_lists(const char* model, std::span<const OperationKind> kinds, size_t length,
                       const RunList& run);
// Before each operation, and after it.
void begin_operation(size_t index);
void end_operation(unsigned kind, bool had_effect);

}  // namespace detail

template <typename Model>
void run_operations(uint64_t seed, std::span<const Operation> operations) {
  Model model(seed);
  for (size_t i = 0; i < operations.size(); ++i) {
    detail::begin_operation(i);
    detail::end_operation(operations[i].kind, model.run(operations[i]));
  }
  detail::begin_operation(operations.size());
  model.finish();
}

// Runs lists of `length` operations, and fails the test at the first that does not hold, or if some
// kind of operation never had anything to do. `name`: the model's, for what is printed.
template <typename Model>
void fuzz(const char* name, size_t length = 500) {
  const std::string failure =
      detail::fuzz_lists(name, Model::kKinds, length, run_operations<Model>);
  INFO(failure);
  CHECK(failure.empty());
}

// A list that once failed: `operations` as they were printed.
template <typename Model>
void replay(uint64_t seed, const std::vector<Operation>& operations) {
  run_operations<Model>(seed, operations);
}

}  // namespace tidepool::test
