#include "remat/residency/residency.h"

#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"

namespace tidepool {
namespace {

using remat::Storage;

TEST_CASE("what may be evicted") {
  LineageBuilder built;
  Storage* x = built.root();
  Storage* a = built.result({x});
  CHECK(!built.residency.evictable(*x));
  CHECK(built.residency.evictable(*a));
  a->locks = 1;
  CHECK(!built.residency.evictable(*a));
  a->locks = 0;
  a->current->locks = 1;
  CHECK(!built.residency.evictable(*a));
  a->current->locks = 0;
  a->escaped = true;
  CHECK(!built.residency.evictable(*a));
  a->escaped = false;
  CHECK(built.evict(a));
  CHECK(!built.residency.evictable(*a));
  CHECK(!built.evict(a));
  built.check();
  CHECK(built.install(a));
  built.residency.freeze();
  CHECK(!built.residency.evictable(*a));
  CHECK(built.residency.evictions == 1);
  CHECK(built.residency.rematerializations == 1);
}

TEST_CASE("a storage that is dying is neither evicted nor installed, and stays so") {
  LineageBuilder built;
  Storage* a = built.result({built.root()});
  Storage* b = built.result({a});
  CHECK(built.evict(b));
  built.refuse = true;
  CHECK(!built.evict(a));
  CHECK(a->dying);
  CHECK(!built.install(b));
  CHECK(b->dying);
  built.refuse = false;
  CHECK(!built.evict(a));
  CHECK(!built.install(b));
  built.check();
}

TEST_CASE("contents that cannot be read to be compared later stay, as they were") {
  LineageBuilder built;
  Storage* a = built.result({built.root()});
  void* const address = a->address;
  built.residency.check.enable_counts();
  built.unreadable = true;
  CHECK(!built.evict(a));
  CHECK(!a->evicted);
  CHECK(a->address == address);
  CHECK(built.residency.evictions == 0);
  built.check();
  built.unreadable = false;
  CHECK(built.evict(a));
  built.check();
}

TEST_CASE("chaos takes everything, or a part that depends on the seed alone") {
  auto evicted = [](uint64_t odds, uint64_t seed) {
    SplitMix random(seed);
    LineageBuilder built;
    Storage* x = built.root();
    std::vector<Storage*> all;
    for (int k = 0; k < 64; ++k) all.push_back(built.result({x}));
    DeviceLock lock(built.mutex);
    built.residency.evict_everything(odds, &random);
    uint64_t set = 0;
    for (size_t k = 0; k < all.size(); ++k) set |= static_cast<uint64_t>(all[k]->evicted) << k;
    return set;
  };
  CHECK(evicted(1, 0) == ~uint64_t{0});
  CHECK(evicted(3, 5) == evicted(3, 5));
  CHECK(evicted(3, 5) != evicted(3, 6));
  CHECK(evicted(3, 5) != 0);
}

TEST_CASE("kept bytes are listed, have no owner, and go with their value") {
  LineageBuilder built;
  Storage* x = built.root();
  Storage* y = built.root();
  Storage* a = built.result({x, y});
  built.evict(a);
  CHECK(built.die(x));
  CHECK(built.die(y));
  CHECK(built.residency.kept().size() == 2);
  built.check();
  const size_t before = built.allocator.statistics().allocated_bytes;
  built.die(a);
  CHECK(built.residency.kept().empty());
  CHECK(built.allocator.statistics().allocated_bytes == before - 128);
}

}  // namespace
}  // namespace tidepool
