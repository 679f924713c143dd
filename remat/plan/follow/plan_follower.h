// PlanFollower: has a running job follow a plan file. The job's first steps are recorded until each
// plan of the file has found its step; what repeats such a step follows its plan from then on, and
// PlannedPolicy sees to it that a step does so up to the first difference only. A plan for a step
// that the job does not have changes nothing. Nothing is searched for.
// The observer's functions need the device's lock; statistics() must not have it. Thread safe.
// Invariants: those of EventRecorder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "remat/plan/follow/plan_file.h"
#include "remat/record/event_recorder.h"
#include "remat/runtime.h"

namespace tidepool::remat {

class PlanFollower final : public EventRecorder {
 public:
  // Requires: the runtime outlives the follower, and its policy follows plans and keeps a history
  // from the beginning on. Does not make itself the runtime's observer.
  PlanFollower(Runtime& runtime, std::shared_ptr<const PlanFile> file);

  bool step_ended(const StepEnd& end) override;
  size_t bookkeeping_bytes() const override;
  void forked() override { set_recording(false); }

  // How many plans of the file have found their step.
  size_t found() const;

 private:
  // Steps that are looked at, and what may be recorded of them: a step of a large network has some
  // ten thousand events of 100 bytes.
  static constexpr uint32_t kMostSteps = 16;
  static constexpr size_t kMostEvents = 400'000;

  void before_event() override;
  void made(const ObservedCall& call) override;
  void look_up(const StepEnd& end);
  void stop();

  Runtime& runtime_;
  const std::shared_ptr<const PlanFile> file_;
  std::vector<uint32_t> outputs_;  // operators' outputs as in StepHistory: storages, or kNoStorage
  std::vector<uint64_t> found_;    // the digests of the steps found
  uint32_t steps_ = 0;
};

}  // namespace tidepool::remat
