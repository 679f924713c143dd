#include "remat/policies/table/policy_table.h"

#include <iterator>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "remat/policies/baselines/coop.h"
#include "remat/policies/baselines/delta.h"
#include "remat/policies/baselines/dte.h"
#include "remat/policies/baselines/dtr.h"
#include "remat/policies/baselines/dtr_eq.h"
#include "remat/policies/baselines/dtr_local.h"
#include "remat/policies/baselines/lru.h"
#include "remat/policies/baselines/msps.h"
#include "remat/policies/baselines/random.h"
#include "remat/policies/baselines/size.h"
#include "remat/policies/needed_cost.h"
#include "remat/policies/next_use.h"
#include "remat/policies/planned.h"

namespace tidepool::remat {
namespace {

using Make = std::unique_ptr<Policy> (*)(LineageStore& store, uint64_t seed);

template <typename Kind>
std::unique_ptr<Policy> of_store(LineageStore& store, uint64_t) {
  return std::make_unique<Kind>(store);
}

template <typename Kind>
std::unique_ptr<Policy> of_nothing(LineageStore&, uint64_t) {
  return std::make_unique<Kind>();
}

// Names that policies had before, which users may still give.
constexpr std::pair<std::string_view, std::string_view> kOldNames[] = {{"need1", "needed-cost"}};

struct Entry {
  const char* name;
  Make make;
};

// The one list of policies. The Python package's list of names, for where no library is loaded yet,
// is made from the text of these arrays by bindings/python/generate_policies.py.
constexpr Entry kOwnPolicies[] = {
    {"planned",
     [](LineageStore& store, uint64_t) -> std::unique_ptr<Policy> {
       return std::make_unique<PlannedPolicy>(store, &make_policy);
     }},
    {"needed-cost", of_store<NeededCostPolicy>},
    {"next-use", of_store<NextUsePolicy>},
};
constexpr Entry kBaselines[] = {
    {"coop", of_store<CoopPolicy>},
    {"dtr", of_store<DtrPolicy>},
    {"dtr-eq", of_store<DtrEqPolicy>},
    {"dtr-local", of_nothing<DtrLocalPolicy>},
    {"lru", of_nothing<LruPolicy>},
    {"size", of_nothing<SizePolicy>},
    {"msps", of_store<MspsPolicy>},
    {"dte", of_store<DtePolicy>},
    {"delta", of_nothing<DeltaPolicy>},
    {"random",
     [](LineageStore&, uint64_t seed) -> std::unique_ptr<Policy> {
       return std::make_unique<RandomPolicy>(seed);
     }},
};

}  // namespace

std::span<const std::string> policy_names() {
  static const std::vector<std::string>* const kNames = [] {
    auto* names = new std::vector<std::string>;
    for (const Entry& entry : kOwnPolicies) names->emplace_back(entry.name);
    for (const Entry& entry : kBaselines) names->emplace_back(entry.name);
    return names;
  }();
  return *kNames;
}

std::span<const std::string> baseline_names() {
  return policy_names().subspan(std::size(kOwnPolicies));
}

std::unique_ptr<Policy> make_policy(const std::string& given, LineageStore& store, uint64_t seed) {
  std::string_view name = given;
  for (const auto& [old_name, now] : kOldNames) {
    if (name == old_name) name = now;
  }
  for (const std::span<const Entry> entries :
       {std::span<const Entry>(kOwnPolicies), std::span<const Entry>(kBaselines)}) {
    for (const Entry& entry : entries) {
      if (name == entry.name) return entry.make(store, seed);
    }
  }
  throw std::invalid_argument(fmt::format("unknown policy '{}'; expected one of {}", name,
                                          fmt::join(policy_names(), ", ")));
}

}  // namespace tidepool::remat
