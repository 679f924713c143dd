// coop_placement: Coop's cheap tensor partitioning (Zhang et al., NeurIPS 2023, section 3): what is
// cheap to make again lies at the high end of free blocks, what is dear at the low one, so that
// cheap windows exist. As in the authors'
// source it is the operator that decides, by name, in a first run as in a replay; workspaces go
// with their operator. Off in that source by default.
#pragma once

#include <string_view>

#include "allocator/base/owner.h"

namespace tidepool::plan {

// `name`: the operator's, with or without namespace and overload ("aten::mm.out", "mm").
// Returns kLow for the source's list (convolutions, their gradients, matrix products, sums of
// several tensors), under OneFlow's names and PyTorch's; else kHigh.
End coop_placement(std::string_view name);

}  // namespace tidepool::plan
