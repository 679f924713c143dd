#include "remat/simulate/job/simulated_job.h"

#include "remat/simulate/memory/memory_model.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

struct World {
  World(const Trace& trace, size_t budget)
      : memory(*make_memory(MemoryModel::kExact, budget, 0)),
        allocator(*memory.space, mutex, memory.config),
        job(trace, allocator, budget),
        runtime(allocator, job, {}) {
    job.set_runtime(&runtime);
  }
  void check() {
    runtime.check_invariants();
    allocator.check_invariants();
  }
  // The one that has so many bytes.
  Storage* storage_of(size_t bytes) {
    for (const BlockView& block : allocator.blocks()) {
      if (block.requested_bytes == bytes) return runtime.find(block.address);
    }
    return nullptr;
  }
  size_t held() const { return allocator.statistics().requested_bytes; }

  SimulatedMemory memory;
  DeviceMutex mutex;
  BudgetedAllocator allocator;
  SimulatedJob job;
  Runtime runtime;
};

Trace two_operators() {
  return trace_of(R"({"tidepool_trace":1,"name":"t","device":"cpu"}
{"root":0,"bytes":10}
{"op":"f","ns":5,"in":[0],"out":[[1,20],[2,0]]}
{"op":"g","ns":6,"in":[1,2],"out":[[3,30]],"workspace":40}
{"release":1}
{"end":4}
)");
}

TEST_CASE("events take and give back bytes, and time passes") {
  const Trace trace = two_operators();
  World world(trace, 1000);
  const size_t held[] = {10, 30, 60, 40};
  const uint64_t passed[] = {0, 5, 11, 11};
  for (size_t k = 0; k < trace.events.size(); ++k) {
    world.job.run(trace.events[k]);
    CHECK(world.held() == held[k]);
    CHECK(world.job.counts().compute_ns == passed[k]);
    world.check();
  }
  CHECK(world.job.take_peak_bytes() == 100);
  CHECK(world.job.take_peak_bytes() == 40);
  world.job.drop_results();
  CHECK(world.held() == 10);
  world.job.run(trace.events[0]);  // the root lives on
  CHECK(world.held() == 10);
  world.job.run(trace.events[1]);
  CHECK(world.held() == 30);
}

TEST_CASE("a storage is to the runtime what the trace says, from there on") {
  const Trace trace = trace_of(R"({"tidepool_trace":1,"name":"t","device":"cpu"}
{"root":0,"bytes":10,"kind":"input"}
{"root":1,"bytes":0}
{"op":"f","ns":5,"in":[0],"out":[[2,20]]}
{"role":0,"kind":"parameter"}
{"role":1,"kind":"parameter"}
{"role":2,"kind":"optimizer_state"}
{"end":6}
)");
  World world(trace, 1000);
  for (size_t k = 0; k < 3; ++k) world.job.run(trace.events[k]);
  Storage* const root = world.storage_of(10);
  Storage* const result = world.storage_of(20);
  REQUIRE(root != nullptr);
  REQUIRE(result != nullptr);
  CHECK(root->role == Role::kInput);
  CHECK(result->role == Role::kOther);
  for (size_t k = 3; k < 6; ++k) world.job.run(trace.events[k]);
  CHECK(root->role == Role::kParameter);
  CHECK(result->role == Role::kOptimizerState);
  world.check();
}

TEST_CASE("evicted storages die and are restored as in a real job") {
  const Trace trace = two_operators();
  World world(trace, 1000);
  for (size_t k = 0; k < 3; ++k) world.job.run(trace.events[k]);
  {
    DeviceLock lock(world.mutex);
    CHECK(world.runtime.evict_everything() == 2);
  }
  CHECK(world.held() == 10);
  world.job.take_peak_bytes();
  world.job.restore_all();
  CHECK(world.held() == 60);
  CHECK(world.job.take_peak_bytes() == 100);  // a replay needs its workspace, too
  CHECK(world.job.counts().compute_ns == 2 * (5 + 6));
  {
    DeviceLock lock(world.mutex);
    world.runtime.evict_everything();
  }
  world.job.run(trace.events[3]);
  world.job.drop_results();
  CHECK(world.held() == 10);
  world.check();
}

TEST_CASE("partitioning puts what is cheap at the other end") {
  const Trace trace = trace_of(R"({"tidepool_trace":1,"name":"t","device":"cpu"}
{"op":"aten::mm","ns":5,"out":[[0,64]]}
{"op":"aten::relu","ns":5,"out":[[1,64]]}
{"end":2}
)");
  for (const bool partition : {false, true}) {
    SimulatedMemory memory =
        *make_memory(MemoryModel::kArena, 1 << 20, 0, {.partition = partition});
    DeviceMutex mutex;
    BudgetedAllocator allocator(*memory.space, mutex, memory.config);
    SimulatedJob job(trace, allocator, 1 << 20, memory.strategy.get());
    Runtime runtime(allocator, job, {});
    job.set_runtime(&runtime);
    for (const TraceEvent& event : trace.events) job.run(event);
    const std::vector<BlockView> blocks = allocator.blocks();
    REQUIRE(blocks.size() == 3);
    CHECK((blocks.back().use == BlockUse::kAllocated) == partition);
  }
}

TEST_CASE("copies take time where their speed is known") {
  Trace trace = two_operators();
  for (const double speed : {0.0, 2.0}) {
    trace.facts.copy_bytes_per_ns = speed;
    World world(trace, 1000);
    world.job.copy(nullptr, nullptr, 100);
    CHECK(world.job.counts().copied_bytes == 100);
    CHECK(world.job.counts().compute_ns == (speed > 0 ? 50 : 0));
  }
}

TEST_CASE("time that is up ends a job between operators, and nothing is lost") {
  const Trace trace = two_operators();
  World world(trace, 1000);
  world.job.run(trace.events[0]);
  world.job.set_time_limit(10);
  world.job.run(trace.events[1]);
  CHECK_THROWS_AS(world.job.run(trace.events[2]), TimeIsUp);
  CHECK(world.held() == 30);
  world.check();
}

TEST_CASE("where a trace has blocks, a job allocates and frees what it says, and so do replays") {
  const Trace trace = trace_of(R"({"tidepool_trace":2,"name":"t","device":"cpu"}
{"block":0,"bytes":100}
{"block":1,"bytes":30}
{"root":0,"bytes":100,"block":0}
{"op":"f","ns":5,"in":[0],"out":[[1,20,3]],"blocks":[[2,40],[3,20],2,[4,7]]}
{"op":"g","ns":6,"in":[1],"out":[[2,30,1]],"blocks":[[5,50],5]}
{"release":1}
{"free":4}
{"end":7}
)");
  World world(trace, 1000);
  const size_t held[] = {100, 130, 130, 157, 157, 137, 130};
  for (size_t k = 0; k < trace.events.size(); ++k) {
    world.job.run(trace.events[k]);
    CHECK(world.held() == held[k]);
    world.check();
    if (k != 4) continue;
    CHECK(world.job.take_peak_bytes() == 207);
    {
      DeviceLock lock(world.mutex);
      CHECK(world.runtime.evict_everything() == 2);
    }
    CHECK(world.held() == 107);
    world.job.restore_all();  // with their workspaces; and what a replay leaves beside is freed
    CHECK(world.held() == 157);
    CHECK(world.job.take_peak_bytes() == 207);
    CHECK(world.job.counts().compute_ns == 2 * (5 + 6));
  }
  world.job.drop_results();
  CHECK(world.held() == 100);
  for (const TraceEvent& event : trace.events) world.job.run(event);  // the root lives on
  CHECK(world.held() == 130);
  world.check();
}

TEST_CASE("a storage whose contents change unseen stays where it is") {
  const Trace trace = trace_of(R"({"tidepool_trace":1,"name":"t","device":"cpu"}
{"op":"f","ns":5,"out":[[0,20]]}
{"op":"f","ns":5,"in":[0],"out":[[1,20]]}
{"op":"tidepool::cut","ns":0,"write":[[0,"update"]],"recordable":false}
{"op":"f","ns":5,"write":[[0,"overwrite"]]}
{"end":4}
)");
  World world(trace, 1000);
  for (size_t k = 0; k < 2; ++k) world.job.run(trace.events[k]);
  {
    DeviceLock lock(world.mutex);
    CHECK(world.runtime.evict_everything() == 2);
  }
  world.job.run(trace.events[2]);  // what is handed out is restored
  CHECK(world.held() == 20);
  world.job.run(trace.events[3]);
  CHECK(world.runtime.statistics().operators_seen == 3);
  DeviceLock lock(world.mutex);
  CHECK(world.runtime.evict_everything() == 0);
}

TEST_CASE("what is done for a job is logged with the numbers of its trace") {
  const Trace trace = trace_of(R"({"tidepool_trace":1,"name":"t","device":"cpu"}
{"root":0,"bytes":64}
{"op":"tidepool::cut","ns":0,"write":[[0,"update"]],"recordable":false}
{"op":"f","ns":5,"in":[0],"out":[[1,64]]}
{"op":"g","ns":6,"in":[1],"out":[[2,64]]}
{"op":"h","ns":6,"in":[1]}
{"end":5}
)");
  const TemporaryFile file("work.log");
  World world(trace, 1000);
  WorkLog log(file.path());
  world.job.set_log(&log);
  for (size_t k = 0; k < 4; ++k) world.job.run(trace.events[k]);
  {
    DeviceLock lock(world.mutex);
    CHECK(world.runtime.evict_everything() == 2);
  }
  world.job.run(trace.events[4]);
  world.job.copy(nullptr, nullptr, 9);
  CHECK(file.read() == "1 evict 2 128\n1 evict 1 64\n1 replay 0\n1 restore 1 64\n2 copy 9\n");
}

}  // namespace
}  // namespace tidepool::remat
