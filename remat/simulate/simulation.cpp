#include "remat/simulate/simulation.h"

#include "remat/lineage/lineage_store.h"
#include "remat/policies/table/policy_table.h"

namespace tidepool::plan {

const char* name_of(SimulationStatus status) {
  constexpr const char* kNames[] = {"ok", "out_of_memory", "thrash"};
  return kNames[static_cast<size_t>(status)];
}

void check_policy(const std::string& name) {
  struct Deaf final : remat::LineageStore::Observer {
    void value_dies(remat::Value&) override {}
  } observer;
  remat::LineageStore store(observer);
  remat::make_policy(name, store);
}

}  // namespace tidepool::plan
