#include "remat/restore/contents.h"

#include <stdexcept>

#include "remat/restore/storage_locks.h"
#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"

namespace tidepool::remat {
namespace {

TEST_CASE("contents need a policy that there is") {
  CHECK_THROWS_AS(LineageBuilder("fifo"), std::invalid_argument);
}

TEST_CASE("what is forgotten gives its kept bytes back") {
  LineageBuilder built;
  Storage* x = built.root();
  Storage* y = built.result({x});
  Storage* z = built.result({y});
  CHECK(built.evict(z));
  CHECK(built.evict(y));
  CHECK(built.die(x));
  CHECK(built.residency.kept().size() == 1);
  CHECK(built.allocator.allocated_bytes() > 0);
  DeviceLock lock(built.mutex);
  built.contents.clear();
  CHECK(built.residency.kept().empty());
  CHECK(built.store.storages() == 0);
  CHECK(built.store.values() == 0);
  CHECK(built.store.records() == 0);
  CHECK(built.allocator.allocated_bytes() == 0);
}

TEST_CASE("a storage that dies while it is locked lasts as long as the lock") {
  LineageBuilder built;
  Storage* x = built.root();
  {
    StorageLocks locks(built.contents);
    locks.add(*x);
    CHECK(!built.residency.at_rest(*x));
    Value& value = *x->current;
    x->current = nullptr;
    value.storage = nullptr;
    x->dead = true;
    built.store.release(&value);
    CHECK(built.store.storages() == 1);
    CHECK(locks.all().size() == 1);
  }
  CHECK(built.store.storages() == 0);
}

}  // namespace
}  // namespace tidepool::remat
