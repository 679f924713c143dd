#include "remat/lineage/pool.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

struct Thing {
  int number = 7;
};

TEST_CASE("an object pool reuses memory and lists what lives") {
  ObjectPool<Thing> pool;
  std::vector<Thing*> all;
  for (int k = 0; k < 1000; ++k) {
    all.push_back(pool.take());
    REQUIRE(all.back()->number == 7);
    all.back()->number = k;
  }
  const size_t bytes = pool.bytes();
  for (int k = 0; k < 1000; k += 2) pool.put(all[static_cast<size_t>(k)]);
  CHECK(pool.live() == 500);
  int sum = 0;
  pool.for_each([&](const Thing& thing) { sum += thing.number; });
  CHECK(sum == 500 * 500);
  for (int k = 0; k < 500; ++k) CHECK(pool.take()->number == 7);
  CHECK(pool.bytes() == bytes);
}

TEST_CASE("slabs are aligned, do not overlap, and are counted") {
  SlabPool pool;
  std::map<char*, size_t> slabs;
  for (size_t k = 0; k < 2000; ++k) {
    const size_t bytes = 1 + (k * 37) % 3000;
    char* slab = static_cast<char*>(pool.take(bytes));
    REQUIRE(reinterpret_cast<uintptr_t>(slab) % 16 == 0);
    std::memset(slab, 1, bytes);
    REQUIRE(slabs.emplace(slab, bytes).second);
  }
  const char* end = nullptr;
  for (const auto& [slab, bytes] : slabs) {
    REQUIRE(slab >= end);
    end = slab + bytes;
  }
  CHECK(pool.live() == 2000);
  for (const auto& [slab, bytes] : slabs) pool.put(slab, bytes);
  CHECK(pool.live() == 0);
  CHECK(pool.bytes() == 0);
}

TEST_CASE("a slab of no bytes takes none of another's") {
  SlabPool pool;
  void* nothing = pool.take(0);
  auto* slab = static_cast<char*>(pool.take(32));
  std::memset(slab, 1, 32);
  pool.put(nothing, 0);
  CHECK(std::count(slab, slab + 32, 1) == 32);
  pool.put(slab, 32);
  CHECK(pool.bytes() == 0);
}

}  // namespace
}  // namespace tidepool::remat
