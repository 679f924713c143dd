#include "remat/simulate/work_log.h"

#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::plan {
namespace {

TEST_CASE("every line is in the file at once") {
  const TemporaryFile file("work.log");
  WorkLog log(file.path());
  log.evicted(3, 4096);
  CHECK(file.read() == "0 evict 3 4096\n");
  log.begin_call(7);
  log.replayed(2);
  log.restored(3, 64);
  log.copied(512);
  log.replayed(WorkLog::kUnknown);
  log.evicted(WorkLog::kUnknown, 0);
  CHECK(file.read() ==
        "0 evict 3 4096\n7 replay 2\n7 restore 3 64\n7 copy 512\n7 replay ?\n7 evict ? 0\n");
}

TEST_CASE("a log that cannot be written is refused") {
  CHECK_THROWS_WITH(WorkLog("/no/such/folder/work.log"),
                    "/no/such/folder/work.log: No such file or directory");
}

}  // namespace
}  // namespace tidepool::plan
