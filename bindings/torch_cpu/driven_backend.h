// DrivenBackend: the CPU's backend of a job that is driven by a trace of itself. Operators, copies
// and moved pages have the costs of the trace, so that every decision is the same in each run and
// in the trace's simulation. A log (work_log.h) tells what is done for the job. For tests and
// measurements of jobs of one thread. Not thread safe: the device's lock guards the log.
#pragma once

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "allocator/budgeted_allocator.h"
#include "bindings/torch/base/operator_timer.h"
#include "bindings/torch_cpu/cpu_backend.h"
#include "remat/simulate/job/recorded_costs.h"
#include "remat/simulate/job/work_log.h"

namespace tidepool::torch_cpu {

class DrivenBackend final : public CpuBackend, private torch_glue::OperatorTimer {
 public:
  // `log` may be nullptr. Requires: the job's trace is recorded, too, because that numbers its
  // storages.
  DrivenBackend(BudgetedAllocator& allocator, remat::RecordedCosts costs,
                std::unique_ptr<remat::WorkLog> log);

  void execute(const remat::Replay& replay) override;
  bool detach(remat::Storage& storage) override;
  bool attach(remat::Storage& storage, void* address) override;
  void copy(void* to, const void* from, size_t bytes) override;
  uint64_t copy_ns(size_t bytes) const override { return costs_.facts().copy_ns(bytes); }
  torch_glue::OperatorTimer* timer() override { return this; }

 private:
  using Call = torch_glue::OperatorTimer::Call;
  // Throws: std::runtime_error if the trace has another call here.
  Call begin(const remat::RecordType& type, const remat::Record* record,
             uint64_t timing_key) override;
  uint64_t end(const Call&, size_t) override { return cost_ns_; }

  BudgetedAllocator& allocator_;
  remat::RecordedCosts costs_;
  std::unique_ptr<remat::WorkLog> log_;
  uint64_t cost_ns_ = 0;  // the cost of the call that has begun last
  absl::flat_hash_map<const remat::Record*, uint32_t> calls_;
};

}  // namespace tidepool::torch_cpu
