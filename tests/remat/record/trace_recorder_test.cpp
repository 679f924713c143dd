#include "remat/record/trace_recorder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "remat/simulate/job/simulated_job.h"
#include "remat/simulate/memory/memory_model.h"
#include "remat/trace/trace_format.h"
#include "remat/trace/trace_peak.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"
#include "tests/support/remat_fixture.h"

namespace tidepool::remat {
namespace {

using Catch::Matchers::ContainsSubstring;

// What the recorder said, by whatever thread.
struct Said {
  std::function<void(const std::string&)> listener() {
    return [this](const std::string& line) {
      std::lock_guard<std::mutex> guard(mutex);
      text += line + "\n";
    };
  }
  std::mutex mutex;
  std::string text;
};

// A job that does what a trace says, and is recorded.
struct RecordedJob {
  RecordedJob(const Trace& trace, size_t budget, const RecordingSettings& settings, Said& said)
      : trace_(trace),
        memory(*make_memory(MemoryModel::kExact, budget, 0)),
        allocator(*memory.space, mutex, memory.config),
        job(trace, allocator, budget),
        recorder(settings, trace.facts, said.listener()),
        runtime(allocator, job, {}) {
    allocator.set_observer(&recorder.allocator_observer());
    runtime.set_observer(&recorder);
    job.set_runtime(&runtime);
  }
  void run() {
    for (const TraceEvent& event : trace_.events) job.run(event);
    runtime.check_invariants();
    runtime.set_observer(nullptr);
    recorder.finish();
  }

  const Trace& trace_;
  SimulatedMemory memory;
  DeviceMutex mutex;
  BudgetedAllocator allocator;
  SimulatedJob job;
  TraceRecorder recorder;
  Runtime runtime;
};

std::string record(const Trace& trace, size_t budget, uint64_t* replayed = nullptr) {
  const TemporaryFile file("recorded.jsonl");
  Said said;
  RecordedJob job(trace, budget, {file.path()}, said);
  job.run();
  CHECK(said.text.empty());
  if (replayed != nullptr) *replayed = job.runtime.statistics().operators_replayed;
  return file.read();
}

// Steps, workspaces, in-place writes, an operator that cannot be run again.
const std::string kJob = R"({"tidepool_trace":1,"name":"job","device":"cpu"}
{"root":0,"bytes":100}
{"op":"f","ns":5,"in":[0],"out":[[1,200],[2,8]],"workspace":70,"site":1}
{"role":0,"kind":"parameter"}
{"op":"f","ns":6,"in":[0,1],"out":[[3,300]],"site":2}
{"role":3,"kind":"input"}
{"op":"g","ns":7,"in":[0,3],"out":[[4,10]],"site":1,"recordable":false}
{"release":2}
{"op":"h","ns":8,"in":[1],"write":[[3,"update"]],"site":1}
{"op":"h","ns":8,"write":[[1,"overwrite"],[0,"side"]],"site":2}
{"step":1}
{"op":"f","ns":5,"in":[0],"out":[[5,40]],"site":1}
{"release":5}
{"step":2}
{"end":13}
)";

TEST_CASE("a job that does what a trace says has this trace") {
  const Trace trace = trace_of(kJob);
  CHECK(difference(trace_of(record(trace, 10'000)), trace) == "");
}

TEST_CASE("a job is recorded as the same under every budget") {
  const Trace trace = network_trace(40, 1000, 1000, 7);
  const size_t peak = trace_peak(trace).peak_bytes;
  uint64_t replayed = 0;
  const std::string ample = record(trace, 2 * peak, &replayed);
  CHECK(replayed == 0);
  const std::string tight = record(trace, peak / 2, &replayed);
  CHECK(replayed > 10);
  CHECK(ample == tight);
  CHECK(trace_peak(trace_of(ample)).peak_bytes == peak);
}

TEST_CASE("some of the steps are recorded, with what is there when they begin") {
  const Trace trace = trace_of(kJob);
  const TemporaryFile file("steps.jsonl");
  Said said;
  RecordingSettings settings{file.path(), 2, 2};
  RecordedJob job(trace, 10'000, settings, said);
  job.run();
  const Trace found = read_trace(file.path());
  CHECK(found.operators.size() == 1);
  // 0, 1, 3 and 4 are there, in whatever order.
  size_t roots = 0;
  for (const TraceStorage& storage : found.storages) {
    if (!storage.root) continue;
    roots += storage.bytes;
    CHECK((storage.kind == RootKind::kParameter) == (storage.bytes == 100));
    CHECK((storage.kind == RootKind::kInput) == (storage.bytes == 300));
  }
  CHECK(roots == 100 + 200 + 300 + 10);
  CHECK(found.events.back().kind == EventKind::kStep);
}

TEST_CASE("a step that is not the last one wanted goes on, and nothing follows the last") {
  const Trace trace = trace_of(kJob);
  const TemporaryFile file("steps.jsonl");
  Said said;
  RecordedJob job(trace, 10'000, {file.path(), 1, 1}, said);
  job.run();
  const Trace found = read_trace(file.path());
  CHECK(found.operators.size() == 5);
  CHECK(found.events.back().kind == EventKind::kStep);
}

TEST_CASE("contents that change unseen are an operator that cannot be run again") {
  const TemporaryFile file("cut.jsonl");
  Said said;
  const Trace trace = trace_of(kJob);
  RecordedJob job(trace, 10'000, {file.path()}, said);
  for (size_t k = 0; k < 4; ++k) job.job.run(trace.events[k]);
  for (const BlockView& view : job.allocator.blocks()) {
    if (view.use != BlockUse::kAllocated || view.requested_bytes != 300) continue;
    DeviceLock lock(job.mutex);
    job.runtime.escape(job.runtime.find(view.address), lock);
  }
  job.runtime.set_observer(nullptr);
  job.recorder.finish();
  const Trace found = read_trace(file.path());
  REQUIRE(found.operators.size() == 3);
  CHECK(found.names[found.operators[2].name] == "tidepool::cut");
  CHECK_FALSE(found.operators[2].recordable);
  REQUIRE(found.writes(found.operators[2]).size() == 1);
  CHECK(number(found.writes(found.operators[2])[0].storage) == 3);
}

TEST_CASE("memory that an operator fills unseen is its result") {
  const TemporaryFile file("fill.jsonl");
  Said said;
  RematFixture job;
  TraceRecorder recorder({file.path()}, {}, said.listener());
  job.runtime.set_observer(&recorder);
  RematFixture::Tensor filled = job.input(8);
  job.overwrite(filled);
  RematFixture::Tensor partly = job.input(16);
  job.update(partly);
  job.drop(filled);
  job.runtime.set_observer(nullptr);
  recorder.finish();
  const Trace found = read_trace(file.path());
  REQUIRE(found.operators.size() == 2);
  CHECK(found.outputs(found.operators[0]).size() == 1);
  CHECK(found.writes(found.operators[0]).empty());
  CHECK_FALSE(found.storages[0].root);
  CHECK(found.storages[1].root);
  CHECK(found.writes(found.operators[1]).size() == 1);
  CHECK(found.events.back().kind == EventKind::kRelease);
}

TEST_CASE("an operator that failed has written, and made nothing") {
  const TemporaryFile file("failed.jsonl");
  Said said;
  RematFixture job;
  TraceRecorder recorder({file.path()}, {}, said.listener());
  job.runtime.set_observer(&recorder);
  RematFixture::Tensor y = job.pure({job.input()});
  CHECK_THROWS_AS(job.update(y, {}, true), sim::SimulatedFault);
  job.runtime.set_observer(nullptr);
  recorder.finish();
  const Trace found = read_trace(file.path());
  REQUIRE(found.operators.size() == 2);
  CHECK_FALSE(found.operators[1].recordable);
  CHECK(found.writes(found.operators[1]).size() == 1);
}

TEST_CASE("a file that cannot be written is said once, and the job goes on") {
  const Trace trace = network_trace(2000, 100);
  for (const char* path : {"no/such/folder/file", "/dev/full"}) {
    Said said;
    RecordedJob job(trace, 10'000'000, {path}, said);
    for (int k = 0; k < 10; ++k) {
      for (const TraceEvent& event : trace.events) job.job.run(event);
      job.job.drop_results();
    }
    job.runtime.set_observer(nullptr);
    job.recorder.finish();
    std::lock_guard<std::mutex> guard(said.mutex);
    CHECK_THAT(said.text, ContainsSubstring(std::string("no trace: ") + path + ": cannot be"));
    CHECK(said.text.find('\n') == said.text.size() - 1);
  }
}

TEST_CASE("a file that takes nothing is given up, and nobody waits for it") {
  const Trace trace = network_trace(2000, 100);
  const TemporaryFile pipe("pipe");
  std::remove(pipe.path().c_str());
  REQUIRE(mkfifo(pipe.path().c_str(), 0600) == 0);
  Said said;  // by a thread that hangs until somebody reads
  {
    RecordingSettings settings{pipe.path()};
    settings.most_waiting = 2;
    RecordedJob job(trace, 10'000'000, settings, said);
    for (int k = 0; k < 4; ++k) {
      for (const TraceEvent& event : trace.events) job.job.run(event);
      job.job.drop_results();
    }
    job.runtime.set_observer(nullptr);
    job.recorder.finish();
  }
  const int reader = open(pipe.path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  const auto has_said = [&] {
    std::lock_guard<std::mutex> guard(said.mutex);
    return said.text.ends_with('\n');
  };
  while (!has_said()) std::this_thread::yield();
  CHECK_THAT(said.text, ContainsSubstring("it is slower than the job"));
  close(reader);
}

TEST_CASE("a forked child records nothing and waits for nobody") {
  const Trace trace = trace_of(kJob);
  const TemporaryFile file("forked.jsonl");
  Said said;
  RecordedJob job(trace, 10'000, {file.path()}, said);
  job.job.run(trace.events[0]);
  job.job.run(trace.events[1]);
  job.runtime.become_forked_child();
  job.job.run(trace.events[2]);
  job.recorder.finish();
  CHECK(file.read().find("\"end\"") == std::string::npos);
}

// Memory that is there before it is used or never is, workspaces, blocks that outlive operators.
const std::string kBlocksJob = R"({"tidepool_trace":2,"name":"job","device":"cpu","alignment":1}
{"block":0,"bytes":100}
{"block":1,"bytes":50}
{"block":2,"bytes":60}
{"root":0,"bytes":100,"block":0}
{"op":"f","ns":5,"in":[0],"out":[[1,40,3],[2,8,5]],"blocks":[[3,40],[4,70],4,[5,8],[6,9]],)"
                               R"("workspace":53,"site":1}
{"free":1}
{"op":"g","ns":7,"in":[1],"out":[[3,60,2]],"blocks":[[7,20],7],"workspace":20,"site":1}
{"release":2}
{"free":6}
{"op":"h","ns":8,"in":[3],"write":[[1,"update"]],"args":[3,[1,"update"],3],"site":1}
{"step":1}
{"end":11}
)";

TEST_CASE("where storages lie is recorded, and what lies between them") {
  CHECK(record(trace_of(kBlocksJob), 10'000) == kBlocksJob);
}

}  // namespace
}  // namespace tidepool::remat
