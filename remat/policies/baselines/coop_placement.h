// coop_placement(): Coop's cheap tensor partitioning (Zhang et al., NeurIPS 2023, section 3): says
// which results are dear to make again, and so lie at the other end of free memory. As in the
// authors' source the operator decides, by its name, in a first run as in a replay; workspaces go
// with their operator.
// That source has it off by default.
#pragma once

#include <string_view>

#include "allocator/arena/reclaimer.h"

namespace tidepool::remat {

// `name`: the operator's, with or without namespace and overload ("aten::mm.out", "mm").
// Returns kTransient for the source's list (convolutions, their gradients, matrix products, sums of
// several tensors), under OneFlow's names and PyTorch's; else kCheap.
PlacementHint coop_placement(std::string_view name);

}  // namespace tidepool::remat
