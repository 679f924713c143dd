#include "remat/lineage/lineage.h"

#include <set>
#include <string>

#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

TEST_CASE("every reason for a root has a name of its own") {
  std::set<std::string> names;
  for (const char* name : kRootReasonNames) {
    REQUIRE(name != nullptr);
    CHECK(names.insert(name).second);
  }
  CHECK(names.count("escaped") == 1);
  CHECK(std::string(kRootReasonNames[static_cast<size_t>(RootReason::kRecordingOff)]) ==
        "recording_off");
  CHECK(std::string(kRootReasonNames[static_cast<size_t>(RootReason::kLostRoot)]) == "lost_root");
}

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
