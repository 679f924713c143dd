// The table of policies: the names that a user may give, and the policy that each one stands for.
// docs/life-of-an-eviction.md says what they do.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "remat/policies/policy.h"

namespace tidepool::remat {

// The names that make_policy() takes, the default first. Those of the baselines, which are there to
// be compared with, are its last ones.
std::span<const std::string> policy_names();
std::span<const std::string> baseline_names();

// The policy of that name. `seed`: for policies that draw.
// Throws: std::invalid_argument naming an unknown policy and the known ones.
std::unique_ptr<Policy> make_policy(const std::string& name, LineageStore& store,
                                    uint64_t seed = 0);

}  // namespace tidepool::remat
