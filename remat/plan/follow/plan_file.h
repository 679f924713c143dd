// PlanFile: plans for the steps of a job, as a file keeps them: text, one JSON object a line.
//   {"tidepool_plan":1,"trace":NAME,"solver":NAME,"budget_bytes":N,
//    "alignment":N}
//   {"digest":"16 hexadecimal digits","operators":N,"outputs":N,"policy":NAME,...}  for each step
//   {"end":STEPS,"crc32":"8 hexadecimal digits"}            the checksum of all bytes before
// A step is known by its digest (step_digest.h). Results are numbered as in a plan of planner.h.
// See docs/plans.md. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "remat/steps/step_plan.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

struct PlannedStep {
  uint64_t digest = 0;
  size_t operators = 0;
  size_t outputs = 0;  // how many results have bytes
  StepPlan plan;
};

struct PlanFile {
  std::string trace;   // the name of the trace that the steps are of
  std::string solver;  // who has found the plans
  size_t budget_bytes = 0;
  size_t alignment = 1;  // the trace's, to which digests round sizes up; a power of two
  std::vector<PlannedStep> steps;

  // The plan for a recorded step; nullptr: there is none.
  const PlannedStep* find(const Trace& step) const;
};

// The error of a file that is no plan, or is damaged; names the file, and the line if it is known.
class PlanFileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The text of the file.
std::string plan_text(const PlanFile& file);
// Reads a file. Throws: PlanFileError.
PlanFile read_plan_file(const std::string& path);

}  // namespace tidepool::remat
