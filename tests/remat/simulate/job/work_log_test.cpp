#include "remat/simulate/job/work_log.h"

#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
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

TEST_CASE("a log with blocks says where they are") {
  const TemporaryFile file("work.log");
  {
    WorkLog log(file.path(), true);
    CHECK(log.has_blocks());
    log.begin_call(7);
    log.begin_iteration(2);
    log.held(4096);
    log.mapped(0, 4096, true);
    log.allocated(64, 128);
    log.placed(5, 64);
    log.begin_call(1);
    log.freed(64);
    log.mapped(0, 4096, false);
  }
  CHECK(file.read() ==
        "iteration 2\n0 hold 4096\n0 map 0 4096\n0 allocate 64 128\n0 place 5 64\n1 free 64\n"
        "1 unmap 0 4096\n");
}

TEST_CASE("a log that cannot be written is refused") {
  CHECK_THROWS_WITH(WorkLog("/no/such/folder/work.log"),
                    "/no/such/folder/work.log: No such file or directory");
}

}  // namespace
}  // namespace tidepool::remat
