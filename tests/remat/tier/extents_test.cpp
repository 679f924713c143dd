#include "remat/tier/extents.h"

#include <vector>

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

using remat::Extent;
using remat::Extents;

uint64_t bytes_of(const std::vector<Extent>& pieces) {
  uint64_t sum = 0;
  for (const Extent& piece : pieces) sum += piece.bytes;
  return sum;
}

TEST_CASE("what is given back is taken again, in pieces where it lies in pieces") {
  Extents extents(100);
  const auto a = *extents.take(40);
  const auto b = *extents.take(20);
  const auto c = *extents.take(40);
  CHECK_FALSE(extents.take(1));
  extents.give(a);
  extents.give(c);
  CHECK(extents.room() == 80);
  CHECK_FALSE(extents.take(81));
  const auto d = *extents.take(80);
  CHECK(bytes_of(d) == 80);
  CHECK(d.size() == 2);
  extents.give(b);
  extents.give(d);
  CHECK(extents.taken() == 0);
  CHECK(extents.take(100)->size() == 1);
  extents.check_invariants();
}

TEST_CASE("pieces that are taken at a time never overlap") {
  SplitMix random(7);
  Extents extents(1000);
  std::vector<std::vector<Extent>> taken;
  std::vector<int> users(1000, 0);
  const auto mark = [&](const std::vector<Extent>& pieces, int by) {
    for (const Extent& piece : pieces) {
      for (uint64_t at = piece.offset; at < piece.offset + piece.bytes; ++at) users.at(at) += by;
    }
  };
  for (int round = 0; round < 20'000; ++round) {
    const uint64_t bytes = 1 + random.next() % 120;
    if (random.next() % 2 == 0) {
      const uint64_t room = extents.room();
      auto pieces = extents.take(bytes);
      REQUIRE(pieces.has_value() == (bytes <= room));
      if (!pieces) continue;
      REQUIRE(bytes_of(*pieces) == bytes);
      mark(*pieces, 1);
      taken.push_back(std::move(*pieces));
    } else if (!taken.empty()) {
      std::swap(taken[random.next() % taken.size()], taken.back());
      mark(taken.back(), -1);
      extents.give(taken.back());
      taken.pop_back();
    }
    if (round % 100 != 0) continue;
    extents.check_invariants();
    for (const int count : users) REQUIRE((count == 0 || count == 1));
  }
}

}  // namespace
}  // namespace tidepool
