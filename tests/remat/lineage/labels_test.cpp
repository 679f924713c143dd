#include "remat/lineage/labels.h"

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

}  // namespace
}  // namespace tidepool::remat
