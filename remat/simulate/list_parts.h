// list_parts: a trace as a job runs it: with operators on lists in parts where memory is short
// (remat/lineage/list_operators.h).
#pragma once

#include <cstddef>
#include <optional>

#include "remat/simulate/simulation.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

// Returns the trace with such operators in parts as a job has them under `budget_bytes`. A part
// takes the operator's time by its share of the operands' bytes. Storages keep their numbers. An
// operator stays whole if it cannot be seen from how many storages it reads, writes and makes, and
// from their sizes, which belong to one element; or if, in a trace with blocks, it allocates or
// frees others than its results'.
Trace with_list_parts(const Trace& trace, size_t budget_bytes, bool offloads_roots);

// JobTrace: a trace as the job runs it that `config` is of. The trace that it is made of outlives
// it.
class JobTrace {
 public:
  JobTrace(const Trace& trace, const SimulationConfig& config);
  JobTrace(const JobTrace&) = delete;
  JobTrace& operator=(const JobTrace&) = delete;

  const Trace& operator*() const { return parts_ ? *parts_ : whole_; }

 private:
  const Trace& whole_;
  std::optional<Trace> parts_;
};

}  // namespace tidepool::remat
