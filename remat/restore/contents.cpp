#include "remat/restore/contents.h"

#include <stdexcept>
#include <utility>

#include "fmt/format.h"
#include "remat/policies/table/policy_table.h"

namespace tidepool::remat {

Contents::Contents(BudgetedAllocator& the_allocator, Backend& the_backend,
                   const std::string& policy_name, uint64_t seed, std::unique_ptr<Tier> tier)
    : allocator(the_allocator),
      backend(the_backend),
      store(*this),
      policy(make_policy(policy_name, store, seed)),
      foreseen(tier != nullptr ? policy->step_history() : nullptr),
      residency(allocator, backend, *policy, store, foreseen, std::move(tier)),
      dependent_cut(store, residency),
      queue(backend),
      replay_order(allocator, backend) {
  if (residency.copies.enabled() && !policy->time_price(1, {}) && !policy->prefers_copy(1, 1)) {
    throw std::invalid_argument(
        fmt::format("policy: '{}' does not price time, so that it cannot weigh what is offloaded; "
                    "expected planned or needed-cost",
                    policy_name));
  }
}

void Contents::clear() {
  policy->forget_all();
  residency.copies.clear();
  store.clear();
}

void Contents::let_go(Storage& storage) {
  if (storage.dead) return store.free_storage(&storage);
  if (storage.evicted) return;  // it is watched once an operator has used it again
  storage.unwatched = !backend.watch(storage);
}

void Contents::settle_prices() {
  if (!residency.copies.settle_prices()) return;
  policy->forget_all();
  store.for_each_value([this](Value& value) {
    if (!value.has_bytes() && value.producer != nullptr) policy->availability_changed(value);
  });
}

size_t Contents::side_bytes() const {
  return residency.bookkeeping_bytes() + foreseen.bookkeeping_bytes() +
         policy->bookkeeping_bytes() + backend.side_bytes();
}

}  // namespace tidepool::remat
