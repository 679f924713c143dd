#include "remat/lineage/components.h"

#include <map>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool::remat {
namespace {

TEST_CASE("joining adds, leaving subtracts and does not split") {
  Components components;
  const auto a = components.add(1);
  const auto b = components.add(10);
  const auto c = components.add(100);
  components.unite(a, b);
  components.unite(b, c);
  CHECK(components.sum_ns(a) == 111);
  components.remove(b);
  CHECK(components.sum_ns(a) == 101);
  CHECK(components.find(a) == components.find(c));
  components.remove(a);
  components.remove(c);
  CHECK(components.nodes() == 0);
  components.check_invariants();
}

TEST_CASE("nodes do not pile up") {
  Components components;
  auto last = components.add(1);
  for (int k = 0; k < 100'000; ++k) {
    const auto next = components.add(1);
    components.unite(last, next);
    components.remove(last);
    last = next;
  }
  CHECK(components.sum_ns(last) == 1);
  CHECK(components.nodes() < 64);
  components.check_invariants();
}

}  // namespace
}  // namespace tidepool::remat
