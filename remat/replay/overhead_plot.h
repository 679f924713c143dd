// overhead_plot: an SVG picture of overhead over ratio, one line for each policy. Where a policy
// fails its line has a gap.
#pragma once

#include <span>
#include <string>

#include "remat/replay/runs.h"

namespace tidepool::plan {

std::string overhead_plot(std::span<const Run> runs, const std::string& title);

}  // namespace tidepool::plan
