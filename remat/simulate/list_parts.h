// list_parts: a trace as a job with a second tier runs it: with operators on lists in parts
// (remat/list_operators.h).
#pragma once

#include <cstddef>
#include <optional>

#include "remat/simulate/simulation.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

// Returns the trace with such operators in parts of as many elements as take at most `most_bytes`,
// but at least one. A part takes the operator's time by its share of the operands' bytes. Storages
// keep their numbers. An operator stays whole if it cannot be seen from how many storages it reads,
// writes and makes, and from their sizes, which belong to one element; so does each operator of a
// trace with blocks, because it is not known in which part a block is allocated.
Trace with_list_parts(const Trace& trace, size_t most_bytes);

// JobTrace: a trace as the job runs it that `config` is of: with list parts where it has a tier.
// The trace that it is made of outlives it.
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
