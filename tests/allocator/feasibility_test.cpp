// The demand that a budget makes on the allocator: in any state, what cannot be evicted plus the
// request plus modest rounding within the budget means that the request is served.
#include <algorithm>
#include <optional>
#include <set>

#include "allocator/budgeted_allocator.h"
#include "allocator/space/simulated_space.h"
#include "tests/support/catch.h"
#include "tests/support/fake_reclaimer.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

using test::FakeOwner;
using test::FakeReclaimer;

constexpr size_t kPage = 64 << 10;

// One allocator under a training-like load, with barriers at random.
class Load {
 public:
  Load(size_t budget_pages, uint64_t seed) : random_(seed) {
    AllocatorConfig config;
    config.budget_bytes = budget_pages * kPage;
    config.page_bytes = kPage;
    budget_bytes_ = config.budget_bytes;
    allocator_.emplace(space_, mutex_, config);
    allocator_->set_reclaimer(&reclaimer_);
    reclaimer_.on_evict = [this](FakeOwner* owner) { live_.erase(owner); };
    barrier_percent_ = static_cast<unsigned>(random_.between(0, 40));
    large_percent_ = static_cast<unsigned>(random_.between(20, 80));
  }

  size_t random_bytes() {
    if (!random_.chance(large_percent_)) {
      return random_.between(1, size_t{1} << random_.between(4, 14));
    }
    return random_.between(kPage / 4, budget_bytes_ / random_.between(8, 40));
  }

  bool request(size_t bytes, bool barrier) {
    void* address = nullptr;
    auto hint =
        barrier && random_.chance(50) ? PlacementHint::kLongLived : PlacementHint::kTransient;
    try {
      address = allocator_->allocate(bytes, hint);
    } catch (const OutOfMemory&) {
      return false;
    }
    FakeOwner* owner = reclaimer_.add(address, bytes, random_.below(1000), barrier);
    live_.insert(owner);
    DeviceLock lock(mutex_);
    allocator_->set_owner(address, owner);
    return true;
  }

  // What a step does between two probes: blocks come and go, barriers change.
  void churn(int operations) {
    for (int i = 0; i < operations; ++i) {
      bool barrier = random_.chance(barrier_percent_) && barrier_bytes() < budget_bytes_ * 6 / 10;
      (void)request(random_bytes(), barrier);
      if (random_.chance(40) && !live_.empty()) {
        FakeOwner* owner = any();
        live_.erase(owner);
        allocator_->free(owner->address);
        owner->address = nullptr;
      }
      if (random_.chance(30) && !live_.empty()) any()->barrier = false;
    }
  }

  size_t barrier_bytes() const {
    size_t bytes = 0;
    for (const FakeOwner* owner : live_) {
      if (owner->barrier) bytes += (owner->bytes + 63) / 64 * 64;
    }
    return bytes;
  }
  // Bytes of pages that a barrier lies in.
  size_t barrier_page_bytes() const {
    std::set<uintptr_t> pages;
    for (const FakeOwner* owner : live_) {
      if (!owner->barrier) continue;
      auto begin = reinterpret_cast<uintptr_t>(owner->address);
      for (uintptr_t page = begin / kPage; page * kPage < begin + owner->bytes; ++page) {
        pages.insert(page);
      }
    }
    return pages.size() * kPage;
  }
  size_t budget_bytes() const { return budget_bytes_; }
  test::Random& random() { return random_; }
  const BudgetedAllocator& allocator() const { return *allocator_; }

 private:
  FakeOwner* any() {
    auto it = live_.begin();
    std::advance(it, static_cast<ptrdiff_t>(random_.below(live_.size())));
    return *it;
  }
  struct ByAddress {
    bool operator()(const FakeOwner* a, const FakeOwner* b) const {
      return a->address < b->address;
    }
  };

  test::Random random_;
  SimulatedSpace space_{kPage};
  DeviceMutex mutex_;
  FakeReclaimer reclaimer_;
  std::optional<BudgetedAllocator> allocator_;
  std::set<FakeOwner*, ByAddress> live_;
  size_t budget_bytes_ = 0;
  unsigned barrier_percent_ = 0;
  unsigned large_percent_ = 0;
};

struct Tally {
  size_t asked = 0, failed = 0;
};

TEST_CASE("what fits beside the barriers is served") {
  Tally in_pages;        // barriers' pages + request <= budget: a guarantee
  Tally in_bytes[2][4];  // barriers' bytes + request + slack <= budget
  constexpr size_t kSlackPercent[4] = {0, 5, 10, 20};
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const bool many_pages = seed % 3 != 0;
    Load load(many_pages ? 512 : 64, seed);
    for (int probe = 0; probe < 20; ++probe) {
      load.churn(60);
      size_t barriers = load.barrier_bytes();
      size_t budget = load.budget_bytes();
      size_t most = budget - std::min(budget, barriers);
      size_t bytes = load.random().chance(50) ? load.random_bytes()
                                              : most / 100 * load.random().between(20, 100) + 1;
      size_t pages = (bytes + kPage - 1) / kPage * kPage;
      bool guaranteed = load.barrier_page_bytes() + pages <= budget;
      bool served = load.request(bytes, false);
      in_pages.asked += guaranteed;
      in_pages.failed += guaranteed && !served;
      for (size_t i = 0; i < 4; ++i) {
        if (barriers + bytes + budget / 100 * kSlackPercent[i] > budget) continue;
        ++in_bytes[many_pages][i].asked;
        in_bytes[many_pages][i].failed += !served;
      }
    }
    load.allocator().check_invariants();
  }
  INFO(in_pages.failed << " of " << in_pages.asked << " that fit in whole pages failed");
  CHECK(in_pages.asked > 1000);
  CHECK(in_pages.failed == 0);
  // Rounding costs what lies beside a barrier in its pages. Measured, failed of asked, for slacks
  // of 0, 5, 10 and 20 %: 64 pages 203/1000, 138/933, 89/876, 16/751; 512 pages 59/2000, 1/1893,
  // 0/1780, 0/1579.
  for (bool many_pages : {false, true}) {
    for (size_t i = 0; i < 4; ++i) {
      UNSCOPED_INFO((many_pages ? 512 : 64) << " pages, slack of " << kSlackPercent[i]
                                            << " %: " << in_bytes[many_pages][i].failed
                                            << " failed of " << in_bytes[many_pages][i].asked);
    }
  }
  CHECK(in_bytes[false][3].failed * 25 < in_bytes[false][3].asked);
  CHECK(in_bytes[true][1].failed * 200 < in_bytes[true][1].asked);
}

}  // namespace
}  // namespace tidepool
