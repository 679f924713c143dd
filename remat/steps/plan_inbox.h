// PlanInbox: hands one plan at a time from a thread that finds it to the policy that follows it,
// without a lock, so that neither ever waits. A plan that was not taken gives way to the next.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "remat/steps/step_plan.h"

namespace tidepool::remat {

class PlanInbox {
 public:
  PlanInbox() = default;
  ~PlanInbox() { delete slot_.load(std::memory_order_relaxed); }
  PlanInbox(const PlanInbox&) = delete;
  PlanInbox& operator=(const PlanInbox&) = delete;

  void put(StepPlan plan) {
    auto held = std::make_unique<StepPlan>(std::move(plan));
    delete slot_.exchange(held.release(), std::memory_order_acq_rel);
  }
  // Returns nullptr if there is none.
  std::unique_ptr<StepPlan> take() {
    if (slot_.load(std::memory_order_relaxed) == nullptr) [[likely]]
      return nullptr;
    return std::unique_ptr<StepPlan>(slot_.exchange(nullptr, std::memory_order_acq_rel));
  }

 private:
  std::atomic<StepPlan*> slot_{nullptr};
};

}  // namespace tidepool::remat
