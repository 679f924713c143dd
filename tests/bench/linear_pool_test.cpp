#include "bench/allocator/linear_pool.h"

#include <map>

#include "allocator/base/sizes.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool::bench {
namespace {

TEST_CASE("a linear pool hands out blocks that do not overlap") {
  test::Random random(7);
  LinearPool pool(64 * kMiB);
  struct Live {
    size_t bytes;
    StreamId stream;
  };
  std::map<uintptr_t, Live> live;
  size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    if (random.chance(55)) {
      const size_t bytes = random.between(1, random.chance(10) ? 8 * kMiB : 64 * kKiB);
      const StreamId stream{static_cast<uint32_t>(random.below(3))};
      void* address = pool.allocate(bytes, stream);
      if (address == nullptr) {
        ++refused;
        continue;
      }
      const auto begin = reinterpret_cast<uintptr_t>(address);
      auto next = live.lower_bound(begin);
      if (next != live.end()) REQUIRE(begin + bytes <= next->first);
      if (next != live.begin()) {
        auto before = std::prev(next);
        REQUIRE(before->first + before->second.bytes <= begin);
      }
      live[begin] = {bytes, stream};
    } else if (!live.empty()) {
      auto victim = live.begin();
      std::advance(victim, static_cast<std::ptrdiff_t>(random.below(live.size())));
      pool.free(reinterpret_cast<void*>(victim->first), victim->second.bytes,
                victim->second.stream);
      live.erase(victim);
    }
    if (round % 64 == 0) pool.check_invariants();
  }
  CHECK(refused > 0);
  CHECK(pool.reserved_peak_bytes() <= 64 * kMiB);
}

TEST_CASE("what is freed merges, and serves another stream") {
  LinearPool pool(8 * kMiB);
  void* first = pool.allocate(2 * kMiB);
  void* second = pool.allocate(2 * kMiB);
  pool.free(first, 2 * kMiB);
  pool.free(second, 2 * kMiB);
  CHECK(pool.allocate(4 * kMiB, StreamId{1}) == first);
  CHECK(pool.allocate(8 * kMiB) == nullptr);
}

}  // namespace
}  // namespace tidepool::bench
