// overhead_plot: an SVG picture of overhead over ratio, with a line for each policy. A line has a
// gap where its policy fails.
#pragma once

#include <span>
#include <string>

#include "remat/replay/runs.h"

namespace tidepool::remat {

std::string overhead_plot(std::span<const Run> runs, const std::string& title);

}  // namespace tidepool::remat
