#include "remat/tier/link_price.h"

#include "tests/support/catch.h"

namespace tidepool {
namespace {

using remat::LinkPrice;

TEST_CASE("a price follows what transfers take, once it is settled") {
  constexpr size_t kBytes = size_t{1} << 20;
  LinkPrice price(1);
  const uint64_t before = price.ns(kBytes);
  CHECK_FALSE(price.settle());
  for (int k = 0; k < 100; ++k) price.note(kBytes, 4 * kBytes);
  CHECK(price.ns(kBytes) == before);
  CHECK(price.settle());
  CHECK(price.ns(kBytes) > 3 * before);
  CHECK_FALSE(price.settle());
  for (int k = 0; k < 100; ++k) price.note(1, 1'000'000);  // small ones say little
  CHECK_FALSE(price.settle());
}

}  // namespace
}  // namespace tidepool
