#include "remat/simulate/simulation.h"

#include "remat/lineage/lineage_store.h"
#include "remat/policies/table/policy_table.h"

namespace tidepool::remat {

const char* name_of(SimulationStatus status) {
  constexpr const char* kNames[] = {"ok", "out_of_memory", "thrash"};
  return kNames[static_cast<size_t>(status)];
}

void check_policy(const std::string& name) {
  struct Deaf final : LineageStore::Observer {
    void value_dies(Value&) override {}
  } observer;
  LineageStore store(observer);
  make_policy(name, store);
}

}  // namespace tidepool::remat
