// lower_bound: a bound on the overhead of a trace under a budget. No schedule goes below it,
// whatever it evicts and when, in memory of any kind. Schedules run the operators in the trace's
// order, each at least once and at its recorded cost; bytes are counted as if they were fungible.
//
// Why the bound is valid: while operator t runs, its operands, outputs and workspace are resident,
// and so are all roots that live. Let E be the other versions of storages that exist then and that
// a later operator reads or updates. A version of E that is not resident at t has to be made again
// after t, and that takes another run of the operator that made it. So with D = (bytes that have to
// be resident) + bytes(E) - budget, a set S of E with bytes(S) >= D is missing, and the extra
// compute is at least the sum of the costs of the operators that made S, each counted once. An
// operator's cost is shared among the bytes of all its results, so that it is never counted more
// than once; and choosing S by fractions, the cheapest by byte first, can only be cheaper (the
// linear relaxation of the knapsack problem, Dantzig 1957). All this holds for every t, so the
// greatest of these bounds is a bound. A version that nobody needs any more counts as free. A root
// becomes a version that can be made again once it is overwritten as a whole. The bound is loose:
// it leaves out the costs of ancestors that have to run, too, and evictions at different moments.
#pragma once

#include <cstddef>
#include <optional>

#include "remat/trace/trace.h"

namespace tidepool::remat {

// The bound on total compute / baseline, at least 1; nothing if no schedule fits the budget. With
// `end_resident`, all storages that live at the end have to be resident at once.
// O(operands · log operands).
std::optional<double> lower_bound(const Trace& trace, size_t budget_bytes,
                                  bool end_resident = false);

}  // namespace tidepool::remat
