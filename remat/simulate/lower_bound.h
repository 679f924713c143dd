// lower_bound: an overhead that no schedule of a trace can go below under a budget, whatever is
// evicted and when, in memory of any kind (operators cost what they cost, in their given order,
// each at least once; bytes are counted as if fungible).
//
// Why it is valid. While operator t runs, its operands, outputs and workspace are resident, and all
// roots that live. Let E be the other versions of storages that exist then and that a later
// operator reads or updates. Those of E that are not resident at t have to be made again after t,
// and that takes another run of the operator that has made them. So with D = (what has to be
// resident) + bytes(E) - budget, a set S of E with bytes(S) >= D is missing, and the extra compute
// is at least the sum of the costs of the operators that have made S, each once. Shared among the
// bytes of all its results, an operator's cost is never counted more than once; and choosing S by
// fractions, the cheapest by byte first, can only be cheaper (the linear relaxation of the knapsack
// problem, Dantzig 1957). That holds for every t: the greatest of all bounds is taken. What nobody
// needs any more is free. Roots become versions that can be made again once they are overwritten as
// a whole. The bound is loose: costs of ancestors that have to run, too, and evictions at different
// moments are left out.
#pragma once

#include <cstddef>
#include <optional>

#include "remat/trace/trace.h"

namespace tidepool::plan {

// Total compute / baseline, at least 1. Empty: no schedule fits. `end_resident`: all that lives at
// the end has to be resident at once. O(operands · log operands).
std::optional<double> lower_bound(const Trace& trace, size_t budget_bytes,
                                  bool end_resident = false);

}  // namespace tidepool::plan
