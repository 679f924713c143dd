#include "remat/lineage/lineage.h"

#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

TEST_CASE("where a value's bytes are") {
  Storage storage;
  Value value;
  int bytes = 0;
  int kept = 0;
  CHECK(!value.available());
  value.storage = &storage;
  storage.address = &bytes;
  CHECK(value.available());
  CHECK(value.address() == &bytes);
  storage.writing = true;
  CHECK(!value.available());
  value.kept = &kept;
  CHECK(value.address() == &kept);
  storage.writing = false;
  value.kept = nullptr;
  storage.evicted = true;
  CHECK(!value.available());
  CHECK(value.live_and_evicted());
  storage.dying = true;
  CHECK(!value.live_and_evicted());
}

}  // namespace
}  // namespace tidepool::remat
