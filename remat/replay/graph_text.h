// graph_text: the steps of a trace as graphs for solvers: one JSON object a line, first the heading
// of a plan file (remat/plan/follow/plan_file.h), then for each kind of step what its GapModel
// says, with the choices that find_gaps() has found.
#pragma once

#include <cstddef>
#include <string>

#include "remat/plan/search/energy_table.h"
#include "remat/plan/search/gap_search.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

std::string graph_text(const Trace& trace, const GapSearchConfig& search,
                       const EnergyTable& energy);

}  // namespace tidepool::remat
