#include "remat/record/event_recorder.h"

#include <memory>
#include <string>
#include <utility>

#include "remat/simulate/job/simulated_job.h"
#include "remat/simulate/memory/memory_model.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

// Records every other step, each as a list of its own.
class EverySecond final : public EventRecorder {
 public:
  bool step_ended(const StepEnd&) override {
    start_step();
    if (recording()) {
      add(EventKind::kStep);
      recorded = std::exchange(filling(), std::make_unique<JobEvents>());
    }
    set_recording(!recording());
    forget_storages();
    return recording();
  }
  void forked() override {}
  void made(const ObservedCall& call) override { results += call.outputs.size(); }

  std::unique_ptr<JobEvents> recorded;
  size_t results = 0;
};

// One root that lives on, and the same step four times.
const std::string kSteps = [] {
  std::string text =
      "{\"tidepool_trace\":1,\"name\":\"job\",\"device\":\"cpu\"}\n"
      "{\"root\":0,\"bytes\":100}\n";
  for (int step = 1; step <= 4; ++step) {
    const std::string made = std::to_string(step);
    text += "{\"op\":\"f\",\"ns\":5,\"in\":[0],\"out\":[[" + made + ",200]],\"site\":1}\n";
    text += "{\"op\":\"g\",\"ns\":6,\"in\":[" + made + "],\"write\":[[0,\"update\"]],\"site\":1}\n";
    text += "{\"release\":" + made + "}\n{\"step\":" + made + "}\n";
  }
  return text + "{\"end\":17}\n";
}();

TEST_CASE("each recording numbers storages anew, whatever numbers they had before") {
  const Trace trace = trace_of(kSteps);
  auto memory = *make_memory(MemoryModel::kExact, 10'000, 0);
  DeviceMutex mutex;
  BudgetedAllocator allocator(*memory.space, mutex, memory.config);
  SimulatedJob job(trace, allocator, 10'000);
  EverySecond recorder;
  Runtime runtime(allocator, job, {});
  allocator.set_observer(&recorder.allocator_observer());
  runtime.set_observer(&recorder);
  job.set_runtime(&runtime);
  std::string recordings[2];
  size_t steps = 0;
  for (const TraceEvent& event : trace.events) {
    job.run(event);
    if (event.kind != EventKind::kStep || ++steps % 2 != 0) continue;
    REQUIRE(recorder.recorded != nullptr);
    TraceBuilder builder(trace.facts);
    play(*recorder.recorded, builder);
    const Trace step = builder.take();
    CHECK(step.storages.size() == 2);
    CHECK(step.operators.size() == 2);
    CHECK(step.storages[0].root);
    CHECK(step.baseline_ns() == 11);
    for (const TraceEvent& each : step.events) {
      recordings[steps / 2 - 1] +=
          std::to_string(static_cast<int>(each.kind)) + " " + std::to_string(each.index) + "\n";
    }
  }
  CHECK(recordings[0] == recordings[1]);
  CHECK(recorder.results == 2);
  runtime.set_observer(nullptr);
}

}  // namespace
}  // namespace tidepool::remat
