// coop_placement: Coop's cheap tensor partitioning (Zhang et al., NeurIPS 2023, section 3): results
// that are cheap to make again are cut from the high end of free blocks, and dear ones from the low
// end, so that there are windows in which all is cheap. As in the authors' source, the name of the
// operator decides, in its first run and in replays, for its results and its workspace. In that
// source the partitioning is off by default.
#pragma once

#include <string_view>

#include "allocator/base/owner.h"

namespace tidepool::remat {

// The end of free blocks for results of an operator. `name` is the operator's name, with or without
// namespace and overload ("aten::mm.out", "mm"). Returns kLow for the operators that the authors'
// source lists (convolutions, their gradients, matrix products, sums of several tensors), by the
// names that OneFlow and PyTorch give them; returns kHigh for all others.
End coop_placement(std::string_view name);

}  // namespace tidepool::remat
