// Random operation lists against a model heap, on every kind of memory, with faults; a list that
// fails is printed as C++ before the process ends, to become a test of its own.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>

#include "allocator/budgeted_allocator.h"
#include "allocator/space/private_host_space.h"
#include "allocator/space/simulated_space.h"
#include "tests/support/aliased_host_space.h"
#include "tests/support/catch.h"
#include "tests/support/counting_space.h"
#include "tests/support/fake_reclaimer.h"
#include "tests/support/faulty_space.h"
#include "tests/support/operation_fuzz.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

using test::FakeOwner;
using test::FakeReclaimer;

constexpr size_t kPage = 64 << 10;
constexpr size_t kBudgetPages = 40;
constexpr size_t kLength = 150;  // of a list

enum class Kind { kAllocate, kFree, kPrefer, kBarrier, kGiveBack, kFault };
constexpr const char* kKindNames[] = {"kAllocate", "kFree",     "kPrefer",
                                      "kBarrier",  "kGiveBack", "kFault"};

struct Operation {
  Kind kind;
  size_t bytes = 0;   // kAllocate; kFault: which call from now on
  size_t number = 0;  // which live block; kAllocate: price, where even owned
};

const std::vector<Operation>* running = nullptr;
size_t running_at = 0;

void print_running() {
  std::fprintf(stderr, "run_list<...>({\n");
  for (size_t i = 0; running != nullptr && i <= running_at && i < running->size(); ++i) {
    const Operation& op = (*running)[i];
    std::fprintf(stderr, "    {Kind::%s, %zu, %zu},\n", kKindNames[static_cast<int>(op.kind)],
                 op.bytes, op.number);
  }
  std::fprintf(stderr, "});\n");
}

void on_abort(int) {
  print_running();
  std::signal(SIGABRT, SIG_DFL);
  raise(SIGABRT);
}

struct Totals {
  size_t served = 0, refused = 0, windows = 0, remaps = 0, shortlisted = 0, moves = 0;
  size_t compacted = 0, faults = 0;
};

template <typename Space, bool kHasMemory>
class Model {
 public:
  Model(const AllocatorConfig& config, bool shortlists)
      : counting_(inner_, config.budget_bytes),
        space_(counting_),
        allocator_(space_, mutex_, config) {
    reclaimer_.shortlists = shortlists;
    allocator_.set_reclaimer(&reclaimer_);
    reclaimer_.allocator = &allocator_;
    reclaimer_.on_move = [this](DeviceLock&, FakeOwner* owner, void* to) {
      check_marks(owner);
      live_.erase(static_cast<char*>(owner->address));
      if (kHasMemory) std::memcpy(to, owner->address, owner->bytes);
      if (!live_.emplace(static_cast<char*>(to), owner).second) FAIL("a place that is taken");
      return true;
    };
    reclaimer_.on_evict = [this](FakeOwner* owner) {
      check_marks(owner);
      live_.erase(static_cast<char*>(owner->address));
    };
  }

  void run(const Operation& op, Totals& totals) {
    switch (op.kind) {
      case Kind::kAllocate:
        allocate(op, totals);
        break;
      case Kind::kFree:
        if (!live_.empty()) release(pick(op.number));
        break;
      case Kind::kPrefer:
        reclaimer_.preferred = static_cast<Preference>(op.number % 4);
        break;
      case Kind::kBarrier:
        if (!live_.empty()) {
          FakeOwner* owner = pick(op.number);
          owner->barrier = !owner->barrier;
        }
        break;
      case Kind::kGiveBack:
        if (op.number % 2 == 0) {
          allocator_.give_back_free_pages();
        } else {
          DeviceLock lock(mutex_);
          totals.compacted += allocator_.compact(lock, StreamId::kDefault);
        }
        break;
      case Kind::kFault:
        totals.faults += space_.failed();
        space_.fail_at(DeviceCall::kAny, op.bytes);
        break;
    }
    allocator_.check_invariants();
    if (allocator_.committed_bytes() != counting_.held_bytes()) {
      FAIL(allocator_.committed_bytes() << " bytes counted, " << counting_.held_bytes() << " held");
    }
  }

  void finish(Totals& totals) {
    space_.fail_never();
    while (!live_.empty()) release(live_.begin()->second);
    for (int i = 0; i < 2; ++i) allocator_.give_back_free_pages();
    allocator_.check_invariants();
    AllocatorStatistics statistics = allocator_.statistics();
    totals.windows += statistics.windows;
    totals.remaps += statistics.remaps;
    totals.shortlisted += statistics.shortlisted;
    totals.moves += statistics.moves;
    CHECK(statistics.allocated_bytes == 0);
    CHECK(statistics.requested_bytes == 0);
    CHECK(counting_.held_peak_bytes() <= statistics.budget_bytes);
  }

 private:
  void allocate(const Operation& op, Totals& totals) {
    char* address = nullptr;
    const auto hint = op.number % 7 == 0 ? PlacementHint::kLongLived : PlacementHint::kTransient;
    try {
      address = static_cast<char*>(allocator_.allocate(op.bytes, hint));
    } catch (const OutOfMemory&) {
      ++totals.refused;
      return;
    }
    ++totals.served;
    auto next = live_.lower_bound(address);
    if (next != live_.end() && address + op.bytes > next->first) FAIL("overlaps the next block");
    if (next != live_.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second->bytes > address) FAIL("overlaps the previous block");
    }
    if (reinterpret_cast<uintptr_t>(address) % 64 != 0) FAIL("not aligned");
    FakeOwner* owner = reclaimer_.add(address, op.bytes, op.number, op.number % 11 == 0);
    owner->refuses = op.number % 13 == 0;
    if (op.number % 3 != 0) owner->move_price = op.number / 8;
    live_.emplace(address, owner);
    if (kHasMemory) {
      address[0] = mark_of(owner);
      address[op.bytes - 1] = mark_of(owner);
    }
    if (op.number % 2 == 1) return;
    DeviceLock lock(mutex_);
    allocator_.set_owner(address, owner);
  }

  FakeOwner* pick(size_t number) {
    auto it = live_.begin();
    std::advance(it, static_cast<ptrdiff_t>(number % live_.size()));
    return it->second;
  }

  void release(FakeOwner* owner) {
    check_marks(owner);
    live_.erase(static_cast<char*>(owner->address));
    allocator_.free(owner->address);
    owner->address = nullptr;
  }

  static char mark_of(const FakeOwner* owner) {
    return static_cast<char>(reinterpret_cast<uintptr_t>(owner) >> 5);
  }
  void check_marks(const FakeOwner* owner) {
    if (!kHasMemory) return;
    const char* address = static_cast<char*>(owner->address);
    if (address[0] != mark_of(owner) || address[owner->bytes - 1] != mark_of(owner)) {
      FAIL("the contents of a block of " << owner->bytes << " bytes were overwritten");
    }
  }

  Space inner_{kPage};
  test::CountingSpace counting_;
  FaultySpace space_;
  DeviceMutex mutex_;
  FakeReclaimer reclaimer_;
  BudgetedAllocator allocator_;
  std::map<char*, FakeOwner*> live_;
};

AllocatorConfig fuzz_config(uint64_t seed) {
  AllocatorConfig config;
  config.budget_bytes = kBudgetPages * kPage;
  config.page_bytes = kPage;
  config.allow_remap = seed % 3 != 0;
  config.allow_windows = seed % 7 != 0;
  return config;
}

template <typename Space, bool kHasMemory>
void run_list(const std::vector<Operation>& operations, const AllocatorConfig& config,
              bool shortlists, Totals& totals) {
  Model<Space, kHasMemory> model(config, shortlists);
  running = &operations;
  auto previous = std::signal(SIGABRT, on_abort);
  try {
    for (running_at = 0; running_at < operations.size(); ++running_at) {
      model.run(operations[running_at], totals);
    }
    model.finish(totals);
  } catch (...) {  // Catch2 leaves a failed test by an exception
    print_running();
    throw;
  }
  std::signal(SIGABRT, previous);
  running = nullptr;
}

std::vector<Operation> random_list(uint64_t seed) {
  test::Random random(seed);
  std::vector<Operation> operations;
  unsigned faults = random.chance(50) ? 2 : 0;
  unsigned large = static_cast<unsigned>(random.between(5, 60));
  const bool few_sizes = random.chance(30);  // shortlists are by size
  for (size_t i = 0; i < kLength; ++i) {
    if (random.chance(faults)) {
      operations.push_back({Kind::kFault, random.between(1, 12), 0});
    }
    uint64_t choice = random.below(100);
    size_t number = random.below(1000);
    if (choice < 58) {
      size_t bytes = few_sizes              ? kPage * (random.chance(90) ? 1 : 2)
                     : random.chance(large) ? random.between(1, 14 * kPage)
                                            : random.between(1, size_t{1} << random.between(4, 15));
      operations.push_back({Kind::kAllocate, bytes, number});
    } else if (choice < 80) {
      operations.push_back({Kind::kFree, 0, number});
    } else if (choice < 86) {
      operations.push_back({Kind::kFree, 0, number});
    } else if (choice < 89) {
      operations.push_back({Kind::kPrefer, 0, number});
    } else if (choice < 98) {
      operations.push_back({Kind::kBarrier, 0, number});
    } else {
      operations.push_back({Kind::kGiveBack, 0, number});
    }
  }
  return operations;
}

template <typename Space, bool kHasMemory>
void fuzz(uint64_t first_seed, uint64_t lists) {
  Totals totals;
  for (uint64_t seed = first_seed; seed < first_seed + lists; ++seed) {
    run_list<Space, kHasMemory>(random_list(seed), fuzz_config(seed), seed % 2 != 0, totals);
  }
  INFO(totals.served << " served, " << totals.refused << " refused, " << totals.windows
                     << " windows, " << totals.remaps << " remaps, " << totals.shortlisted
                     << " from shortlists, " << totals.moves << " moves, " << totals.compacted
                     << " pages by compaction, " << totals.faults << " faults");
  CHECK(totals.windows > lists);
  CHECK(totals.remaps > lists);
  if (lists >= 100) {  // a few in a hundred lists
    CHECK(totals.moves > 0);
    CHECK(totals.compacted > 0);
    CHECK(totals.shortlisted > 0);
  }
  CHECK(totals.faults > lists / 10);
  CHECK(totals.refused > 0);
}

TEST_CASE("random operation lists on simulated memory") {
  fuzz<SimulatedSpace, false>(1, test::fuzz_plan(kLength).lists);
}
// These make system calls.
TEST_CASE("random operation lists on private memory") {
  fuzz<PrivateHostSpace, true>(10001, test::fuzz_plan(kLength).lists / 4);
}
TEST_CASE("random operation lists on aliased memory") {
  fuzz<AliasedHostSpace, true>(20001, test::fuzz_plan(kLength).lists / 4);
}

}  // namespace
}  // namespace tidepool
