// Tier plans: what a search tries where contents can be copied to a second tier, beside its other
// plans. Stateless; thread safe.
#pragma once

#include <vector>

#include "remat/steps/step_plan.h"

namespace tidepool::remat {

// A factor of copies' prices by which what can leave in another way does. The inverse makes them
// cost nothing.
inline constexpr double kLastToBeCopied = 0x1p20;

// Returns plans that price copies in other ways than by what is known of the link: one kind of
// contents leaves by copies only where it has to, what can be made again or what cannot; or all
// that can leaves by copies: beside operators, over a link that is fast enough, they cost nothing.
// `best`: the best plan so far. `has_pages`: a plan may prefer that pages move.
std::vector<StepPlan> plans_with_other_copies(const StepPlan& best, bool has_pages);

// Returns plans that price copies by when contents are used next.
std::vector<StepPlan> plans_by_next_uses(Preference preference);

}  // namespace tidepool::remat
