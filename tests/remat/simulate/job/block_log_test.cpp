#include "remat/simulate/job/block_log.h"

#include "allocator/base/sizes.h"
#include "remat/simulate/memory/memory_model.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

// Counts what it hears of.
class Counting final : public AllocatorObserver {
 public:
  void allocated(const BlockView&) override { ++heard; }
  void freed(const BlockView&, bool) override { ++heard; }
  void awaiting(const BlockView&, bool) override { ++heard; }
  void reserved(size_t) override { ++heard; }
  void page(const void*, size_t, bool) override { ++heard; }
  int heard = 0;
};

TEST_CASE("blocks and pages are logged, and another observer hears of them, too") {
  const size_t page = 64 * kKiB;
  std::optional<SimulatedMemory> memory = make_memory(MemoryModel::kPages, 4 * page, page);
  DeviceMutex mutex;
  BudgetedAllocator allocator(*memory->space, mutex, memory->config);
  Counting next;
  const TemporaryFile file("work.log");
  {
    WorkLog log(file.path(), true);
    const BlockLog blocks(log, allocator, &next);
    log.begin_call(3);
    allocator.free(allocator.allocate(1000));
  }
  const std::string text = file.read();
  CHECK(text.find("3 hold ") != std::string::npos);
  CHECK(text.find("3 map 0 ") != std::string::npos);
  CHECK(text.find("3 allocate 0 1024\n3 free 0\n") != std::string::npos);
  const int heard = next.heard;
  CHECK(heard >= 4);
  allocator.free(allocator.allocate(1000));  // the other one is the observer again
  CHECK(next.heard == heard + 2);
  CHECK(file.read() == text);
  allocator.set_observer(nullptr);
}

}  // namespace
}  // namespace tidepool::remat
