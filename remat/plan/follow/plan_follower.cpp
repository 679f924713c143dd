#include "remat/plan/follow/plan_follower.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "remat/lineage/lineage.h"
#include "remat/plan/search/planner.h"
#include "remat/simulate/job/step_trace.h"

namespace tidepool::remat {

PlanFollower::PlanFollower(Runtime& runtime, std::shared_ptr<const PlanFile> file)
    : runtime_(runtime), file_(std::move(file)) {
  set_recording(!file_->steps.empty());
}

size_t PlanFollower::bookkeeping_bytes() const {
  return EventRecorder::bookkeeping_bytes() + bytes_of(outputs_);
}

void PlanFollower::made(const ObservedCall& call) {
  for (const Storage* output : call.outputs) {
    if (output == nullptr) continue;
    outputs_.push_back(output->dead ? kNoStorage : output->observer_number - 1);
  }
}

void PlanFollower::before_event() {
  if (filling()->events.size() >= kMostEvents) stop();
}

void PlanFollower::stop() {
  set_recording(false);
  filling() = std::make_unique<JobEvents>();
  outputs_ = {};
}

bool PlanFollower::step_ended(const StepEnd& end) {
  start_step();
  if (!recording()) return false;
  add(EventKind::kStep);
  if (!recording()) return false;
  try {
    // Without a fingerprint the step cannot be known again; and another thread's operator may have
    // been under way when the step began or ended.
    if (end.fingerprint != 0 && outputs_.size() == end.outputs) look_up(end);
  } catch (const std::exception&) {
    stop();  // there is no memory: the job goes on without a plan
  }
  outputs_.clear();
  if (++steps_ == kMostSteps || found_.size() == file_->steps.size()) stop();
  return recording();
}

void PlanFollower::look_up(const StepEnd& end) {
  TraceBuilder builder{TraceFacts()};
  play(*filling(), builder);
  const Trace trace = builder.take();
  const size_t begin = step_begin(trace, trace.events.size());
  const PlannedStep* const planned = file_->find(step_trace(trace, begin, trace.events.size()));
  if (planned == nullptr) return;
  if (std::find(found_.begin(), found_.end(), planned->digest) == found_.end()) {
    found_.push_back(planned->digest);
  }
  std::vector<uint32_t> results;
  for (size_t k = begin; k < trace.events.size(); ++k) {
    if (trace.events[k].kind != EventKind::kOperator) continue;
    for (const StorageIndex output : trace.outputs(trace.operators[trace.events[k].index])) {
      const auto storage = static_cast<uint32_t>(number(output));
      if (trace.storages[storage].bytes > 0) results.push_back(storage);
    }
  }
  StepPlan plan = for_job(planned->plan, results, outputs_);
  plan.fingerprint = end.fingerprint;
  runtime_.set_plan(plan);
}

size_t PlanFollower::found() const {
  const DeviceLock lock(runtime_.mutex());
  return found_.size();
}

}  // namespace tidepool::remat
