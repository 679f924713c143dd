// The fuzzing harness itself: what it says of a list that fails.
#include "tests/support/operation_fuzz.h"

#include <algorithm>
#include <cstdlib>

#include "tests/support/catch.h"

namespace tidepool::test {
namespace {

// Fails at the second kDrop after a kFill.
class Faulty {
 public:
  enum Kind { kFill, kDrop, kIdle };
  static constexpr OperationKind kKinds[] = {{"kFill", 1}, {"kDrop", 1}, {"kIdle", 8}};

  explicit Faulty(uint64_t) {}
  bool run(const Operation& op) {
    if (op.kind == kFill && level_ == 0) level_ = 2;
    if (op.kind == kDrop && level_ > 0) expect_equal(--level_ > 0, true);
    return op.kind != kIdle;
  }
  void finish() {}

 private:
  int level_ = 0;
};

std::string outcome() {
  return detail::fuzz_lists("Faulty", Faulty::kKinds, 200, run_operations<Faulty>);
}

TEST_CASE("a failing list is named by its seed, and shrunk when asked to") {
  CHECK(outcome().find("operation_fuzz_test.cpp:21: 0, expected 1") != std::string::npos);
  setenv("TIDEPOOL_FUZZ_SEED", "3", 1);
  const std::string text = outcome();
  unsetenv("TIDEPOOL_FUZZ_SEED");
  CHECK(text.find("test::replay<Faulty>(3, {\n    {Faulty::kFill, ") == 0);
  CHECK(std::count(text.begin(), text.end(), '\n') == 4);
  CHECK(text.find("kIdle") == std::string::npos);
}

TEST_CASE("a kind of operation that never does anything is a failure") {
  struct Lazy : Faulty {
    using Faulty::Faulty;
    bool run(const Operation& op) { return op.kind == kDrop; }
  };
  CHECK(detail::fuzz_lists("Lazy", Lazy::kKinds, 200, run_operations<Lazy>) ==
        "kFill never had anything to do");
}

}  // namespace
}  // namespace tidepool::test
