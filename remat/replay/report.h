// Report: the results of runs as text, for people and for programs.
#pragma once

#include <span>
#include <string>

#include "remat/replay/runs.h"

namespace tidepool::remat {

// One JSON object on one line, without the line's end. Figures that a failed run does not have are
// null.
std::string json_line(const Run& run);

// CSV: a heading, and a line for each run.
std::string csv_text(std::span<const Run> runs);

// A table for a terminal, with the reason of each failure.
std::string table_text(std::span<const Run> runs);

// The same of least budgets: one JSON object on one line; a table.
std::string json_line(const LeastBudget& budget);
std::string table_text(std::span<const LeastBudget> budgets);

// A summary of a grid, with a line for each policy: the lowest ratio that runs, the ratios above it
// that fail (holes), and the most that the overhead rises where the budget grows by a step.
std::string summary_text(std::span<const Run> runs);

}  // namespace tidepool::remat
