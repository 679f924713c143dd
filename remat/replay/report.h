// Report: runs as people and programs read them.
#pragma once

#include <span>
#include <string>

#include "remat/replay/runs.h"

namespace tidepool::plan {

// One JSON object on one line, without the line's end. A figure that a failed run has not is null.
std::string json_line(const Run& run);

// A heading and a line for each run.
std::string csv_text(std::span<const Run> runs);

// A table for a terminal, with the reason of each failure.
std::string table_text(std::span<const Run> runs);

// Of a grid, a line for each policy: the lowest ratio that runs, those above it that fail (holes),
// and how much the overhead rises at most where the budget grows by a step.
std::string summary_text(std::span<const Run> runs);

}  // namespace tidepool::plan
