#include "remat/restore/contents.h"

#include "remat/restore/policy_table.h"

namespace tidepool::remat {

Contents::Contents(BudgetedAllocator& the_allocator, Backend& the_backend,
                   const std::string& policy_name, uint64_t seed)
    : allocator(the_allocator),
      backend(the_backend),
      store(*this),
      policy(make_policy(policy_name, store, seed)),
      residency(allocator, backend, *policy),
      dependent_cut(store, residency),
      queue(backend),
      replay_order(allocator, backend) {}

void Contents::clear() {
  policy->forget_all();
  store.clear();
}

size_t Contents::side_bytes() const {
  return residency.bookkeeping_bytes() + policy->bookkeeping_bytes() + backend.side_bytes();
}

}  // namespace tidepool::remat
