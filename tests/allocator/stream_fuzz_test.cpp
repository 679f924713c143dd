// Random operation lists with several streams, late fences and faults. The oracle is the order in
// which work surely happens (SimulatedStreams): memory that is used by a stream, or taken away,
// before every earlier use is surely over fails the test. A list that fails is printed as C++.
#include <cstdio>
#include <map>

#include "allocator/budgeted_allocator.h"
#include "allocator/space/simulated_space.h"
#include "tests/support/catch.h"
#include "tests/support/counting_space.h"
#include "tests/support/fake_reclaimer.h"
#include "tests/support/faulty_space.h"
#include "tests/support/operation_fuzz.h"
#include "tests/support/random.h"
#include "tests/support/simulated_streams.h"
#include "tests/support/stream_watching_space.h"

namespace tidepool {
namespace {

using test::FakeOwner;
using test::FakeReclaimer;

constexpr size_t kPage = 64 << 10;
constexpr size_t kBudgetPages = 40;
constexpr size_t kStreams = 4;
constexpr size_t kLength = 150;  // of a list

enum class Kind {
  kAllocate,
  kFree,
  kUse,
  kRecord,
  kProgress,
  kBarrier,
  kGiveBack,
  kSuspend,
  kResume,
  kFault,
  kOrderFault
};
constexpr const char* kKindNames[] = {"kAllocate", "kFree",    "kUse",       "kRecord",
                                      "kProgress", "kBarrier", "kGiveBack",  "kSuspend",
                                      "kResume",   "kFault",   "kOrderFault"};

struct Operation {
  Kind kind;
  size_t bytes = 0;   // kAllocate; faults: which call from now on
  size_t number = 0;  // which live block; kAllocate: price, where even owned
  size_t stream = 0;
};

struct Totals {
  size_t served = 0, refused = 0, lent = 0, waits = 0, windows = 0, remaps = 0, faults = 0,
         device_errors = 0, host_waits = 0;
};

class Model {
 public:
  Model(const AllocatorConfig& config, bool shortlists)
      : watching_(inner_, streams_),
        counting_(watching_, config.budget_bytes),
        space_(counting_),
        allocator_(space_, mutex_, config) {
    allocator_.set_stream_order(&streams_);
    reclaimer_.shortlists = shortlists;
    allocator_.set_reclaimer(&reclaimer_);
    reclaimer_.on_evict = [this](FakeOwner* owner) { live_.erase(owner->address); };
  }

  void run(const Operation& op, Totals& totals) {
    const StreamId stream{static_cast<uint32_t>(op.stream)};
    switch (op.kind) {
      case Kind::kAllocate:
        allocate(op, stream, totals);
        break;
      case Kind::kFree:
        if (!live_.empty()) release(pick(op.number));
        break;
      case Kind::kUse:
        if (!live_.empty()) use(pick(op.number)->address, op.stream);
        break;
      case Kind::kRecord:
        if (!live_.empty()) {
          void* address = pick(op.number)->address;
          allocator_.record_stream(address, stream);
          users_[address].push_back(stream);
          launch(stream, address);
        }
        break;
      case Kind::kProgress:
        for (size_t i = 0; i < op.number % 8 + 1; ++i) streams_.progress(stream);
        break;
      case Kind::kBarrier:
        if (!live_.empty()) pick(op.number)->barrier ^= true;
        break;
      case Kind::kGiveBack:
        allocator_.give_back_free_pages();
        break;
      case Kind::kSuspend:
        if (suspended_ < 2) allocator_.suspend_stream_order(), ++suspended_;
        break;
      case Kind::kResume:
        if (suspended_ > 0) allocator_.resume_stream_order(), --suspended_;
        break;
      case Kind::kFault:
        space_.fail_at(DeviceCall::kAny, op.bytes);
        break;
      case Kind::kOrderFault:
        streams_.fail_at(op.bytes, op.number);
        break;
    }
    check(totals);
  }

  void finish(Totals& totals) {
    for (; suspended_ > 0; --suspended_) allocator_.resume_stream_order();
    space_.fail_never();
    streams_.fail_at(0);
    while (!live_.empty()) release(live_.begin()->second);
    streams_.progress_all();
    // What waited is found again, and all of the budget is one piece.
    size_t all = kBudgetPages * kPage;
    void* whole = allocator_.allocate(all, PlacementHint::kTransient, StreamId{1});
    CHECK(streams_.launch(StreamId{1}, Address::of(whole), all).empty());
    allocator_.free(whole);
    for (int i = 0; i < 2; ++i) allocator_.give_back_free_pages();
    allocator_.check_invariants();
    AllocatorStatistics statistics = allocator_.statistics();
    CHECK(statistics.allocated_bytes == 0);
    CHECK(statistics.awaiting_bytes == 0);
    CHECK(statistics.reserved_bytes == 0);
    totals.lent += statistics.lent;
    totals.waits += statistics.stream_waits;
    totals.windows += statistics.windows;
    totals.remaps += statistics.remaps;
    totals.host_waits += streams_.host_waits;
  }

 private:
  void check(Totals& totals) {
    if (++checked_ % 4 == 0) allocator_.check_invariants();  // slow: looks at every bin
    if (allocator_.committed_bytes() != counting_.held_bytes()) {
      FAIL(allocator_.committed_bytes() << " bytes counted, " << counting_.held_bytes() << " held");
    }
    totals.faults += streams_.failed() || space_.failed();
  }

  void launch(StreamId stream, void* address) {
    std::string race = streams_.launch(stream, Address::of(address), live_.at(address)->bytes);
    // Two streams that use one live block are the user's to order.
    (void)race;
  }

  void use(void* address, size_t choice) {
    StreamId stream = owners_.at(address);
    const std::vector<StreamId>& users = users_[address];
    if (!users.empty() && choice > 0) stream = users[choice % users.size()];
    launch(stream, address);
  }

  void allocate(const Operation& op, StreamId stream, Totals& totals) {
    const size_t before = asked();
    void* address = nullptr;
    try {
      address = allocator_.allocate(
          op.bytes, op.number % 7 == 0 ? PlacementHint::kLongLived : PlacementHint::kTransient,
          stream);
    } catch (const OutOfMemory&) {
      ++totals.refused;
    } catch (const DeviceError&) {
      ++totals.device_errors;
      if (!streams_.failed()) FAIL("a device error without a fault");
    }
    if (suspended_ > 0 && before != asked()) {
      FAIL("the device was asked while that was suspended");
    }
    if (address == nullptr) return;
    ++totals.served;
    std::string race = streams_.launch(stream, Address::of(address), op.bytes);
    if (!race.empty()) FAIL(race);
    FakeOwner* owner = reclaimer_.add(address, op.bytes, op.number);
    if (op.number % 2 == 0) {
      DeviceLock lock(mutex_);
      allocator_.set_owner(address, FakeReclaimer::as_owner(owner));
    }
    live_[address] = owner;
    owners_[address] = stream;
    users_.erase(address);
  }

  size_t asked() const {
    return streams_.records + streams_.waits + streams_.host_waits + streams_.queries +
           streams_.finishes;
  }

  FakeOwner* pick(size_t number) {
    auto it = live_.begin();
    std::advance(it, static_cast<ptrdiff_t>(number % live_.size()));
    return it->second;
  }

  void release(FakeOwner* owner) {
    live_.erase(owner->address);
    allocator_.free(owner->address);
    owner->address = nullptr;
  }

  test::SimulatedStreams streams_{kStreams};
  SimulatedSpace inner_{kPage};
  test::StreamWatchingSpace watching_;
  test::CountingSpace counting_;
  FaultySpace space_;
  DeviceMutex mutex_;
  FakeReclaimer reclaimer_;
  BudgetedAllocator allocator_;
  std::map<void*, FakeOwner*> live_;
  std::map<void*, StreamId> owners_;
  std::map<void*, std::vector<StreamId>> users_;
  int suspended_ = 0;
  size_t checked_ = 0;
};

void print(const std::vector<Operation>& operations, size_t count) {
  std::fprintf(stderr, "run_list({\n");
  for (size_t i = 0; i < count && i < operations.size(); ++i) {
    const Operation& op = operations[i];
    std::fprintf(stderr, "    {Kind::%s, %zu, %zu, %zu},\n", kKindNames[static_cast<int>(op.kind)],
                 op.bytes, op.number, op.stream);
  }
  std::fprintf(stderr, "});\n");
}

void run_list(const std::vector<Operation>& operations, const AllocatorConfig& config,
              bool shortlists, Totals& totals) {
  size_t at = 0;
  try {
    Model model(config, shortlists);
    for (; at < operations.size(); ++at) model.run(operations[at], totals);
    model.finish(totals);
  } catch (...) {  // Catch2 leaves a failed test by an exception
    print(operations, at + 1);
    throw;
  }
}

std::vector<Operation> random_list(uint64_t seed) {
  test::Random random(seed);
  std::vector<Operation> operations;
  const unsigned faults = random.chance(40) ? 3 : 0;
  const unsigned captures = random.chance(30) ? 4 : 0;
  const unsigned large = static_cast<unsigned>(random.between(5, 60));
  const size_t streams = random.between(2, kStreams);
  const bool few_sizes = random.chance(30);  // shortlists are by size
  for (size_t i = 0; i < kLength; ++i) {
    const size_t number = random.below(1000);
    const size_t stream = random.below(streams);
    if (random.chance(faults)) operations.push_back({Kind::kFault, random.between(1, 12)});
    if (random.chance(faults)) {
      operations.push_back({Kind::kOrderFault, random.between(1, 9), random.between(1, 9)});
    }
    if (random.chance(captures)) {
      operations.push_back({random.chance(40) ? Kind::kSuspend : Kind::kResume});
    }
    const uint64_t choice = random.below(100);
    if (choice < 46) {
      size_t bytes = few_sizes              ? kPage * (random.chance(90) ? 1 : 2)
                     : random.chance(large) ? random.between(1, 14 * kPage)
                                            : random.between(1, size_t{1} << random.between(4, 15));
      operations.push_back({Kind::kAllocate, bytes, number, stream});
    } else if (choice < 66) {
      operations.push_back({Kind::kFree, 0, number, 0});
    } else if (choice < 72) {
      operations.push_back({Kind::kUse, 0, number, stream});
    } else if (choice < 82) {
      operations.push_back({Kind::kRecord, 0, number, stream});
    } else if (choice < 91) {
      operations.push_back({Kind::kProgress, 0, number, stream});
    } else if (choice < 97) {
      operations.push_back({Kind::kBarrier, 0, number, 0});
    } else {
      operations.push_back({Kind::kGiveBack});
    }
  }
  return operations;
}

TEST_CASE("random operation lists on several streams race nowhere") {
  Totals totals;
  const uint64_t lists = test::fuzz_plan(kLength).lists;
  for (uint64_t seed = 1; seed <= lists; ++seed) {
    AllocatorConfig config;
    config.budget_bytes = kBudgetPages * kPage;
    config.page_bytes = kPage;
    config.alignment = 512;
    config.allow_remap = seed % 5 != 0;
    config.allow_windows = seed % 7 != 0 || !config.allow_remap;
    run_list(random_list(seed), config, seed % 2 != 0, totals);
  }
  INFO(totals.served << " served, " << totals.refused << " refused, " << totals.lent << " lent, "
                     << totals.waits << " waits, " << totals.host_waits << " by the host, "
                     << totals.windows << " windows, " << totals.remaps << " remaps, "
                     << totals.faults << " faults, " << totals.device_errors << " errors");
  CHECK(totals.lent > lists);
  CHECK(totals.waits > lists);
  CHECK(totals.windows > lists);
  CHECK(totals.remaps > lists);
  CHECK(totals.host_waits > lists);
  CHECK(totals.device_errors > 0);
  CHECK(totals.refused > 0);
}

}  // namespace
}  // namespace tidepool
