#include "remat/policy.h"

#include <stdexcept>

#include "remat/policies/component_policy.h"
#include "remat/policies/need1.h"

namespace tidepool::remat {

std::unique_ptr<Policy> make_policy(const std::string& name, LineageStore& store) {
  if (name == "need1") return std::make_unique<Need1Policy>(store);
  if (name == "coop") return std::make_unique<CoopPolicy>(store);
  if (name == "dtr-eq") return std::make_unique<DtrEqPolicy>(store);
  throw std::invalid_argument("unknown policy '" + name + "'; expected need1, coop or dtr-eq");
}

}  // namespace tidepool::remat
