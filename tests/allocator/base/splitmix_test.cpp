#include "allocator/base/splitmix.h"

#include "tests/support/catch.h"

namespace tidepool {
namespace {

TEST_CASE("the generator gives the published numbers") {
  SplitMix random(1234567);
  for (const uint64_t expected :
       {6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u}) {
    CHECK(random.next() == expected);
  }
}

TEST_CASE("numbers below a bound reach all of them and no other") {
  SplitMix random(1);
  bool seen[5] = {};
  for (int k = 0; k < 200; ++k) seen[random.below(5)] = true;
  for (const bool each : seen) CHECK(each);
}

}  // namespace
}  // namespace tidepool
