// Threads: several threads run operators on one runtime, exchange results, update their own
// storages in place and drop what they hold, under a budget that keeps evicting. Contents are
#include "remat/policies/table/policy_table.h"
// compared as in the simulator; what is checked beyond that is the absence of races and deadlocks.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <thread>
#include <vector>

#include "allocator/space/private_host_space.h"
#include "tests/sim/program.h"
#include "tests/support/catch.h"
#include "tests/support/simulated_framework.h"

namespace tidepool::sim {
namespace {

struct Shared {
  Shared(size_t budget_bytes, const remat::RuntimeConfig& config, bool slab)
      : allocator(space, mutex, allocator_config(budget_bytes, slab)),
        framework(allocator, mutex),
        runtime(allocator, framework, config) {
    framework.set_runtime(&runtime);
    // Others come in between, above all while bytes are copied.
    if (slab) framework.on_use = [](StreamId, const void*, size_t) { std::this_thread::yield(); };
  }

  // `slab`: contents of blocks are moved, not pages.
  static AllocatorConfig allocator_config(size_t budget_bytes, bool slab) {
    AllocatorConfig config;
    config.budget_bytes = budget_bytes;
    if (slab) {
      config.range_bytes = budget_bytes;
      config.placement = kOneZone;
      config.allow_remap = false;
    }
    config.page_bytes = 4096;
    config.poison = true;
    return config;
  }

  PrivateHostSpace space{4096};
  DeviceMutex mutex;
  BudgetedAllocator allocator;
  SimulatedFramework framework;
  remat::Runtime runtime;

  // Results that every thread may read and nobody writes any more.
  std::mutex published_mutex;
  std::vector<SimulatedStorage*> published;
  std::atomic<uint64_t> mismatches{0};
  std::atomic<uint64_t> out_of_memory{0};
  std::atomic<uint64_t> gave_up{0};
};

class Worker {
 public:
  Worker(Shared& shared, uint64_t seed) : shared_(shared), random_(seed) {}

  void run(int steps) {
    for (int k = 0; k < steps; ++k) {
      const bool in_interpreter = random_.one_in(2);
      if (in_interpreter) shared_.framework.enter_interpreter();
      try {
        step();
      } catch (const OutOfMemory&) {
        ++shared_.out_of_memory;
        if (!own_.empty()) drop_own();
      } catch (const remat::RestorationError& error) {
        if (shared_.gave_up++ == 0) std::cout << error.what() << "\n";
      }
      if (in_interpreter) shared_.framework.leave_interpreter();
    }
    while (!own_.empty()) drop_own();
  }

 private:
  // A reference to read: one's own, or a published one.
  SimulatedStorage* borrow() {
    std::lock_guard guard(shared_.published_mutex);
    const auto& from = random_.one_in(2) || own_.empty() ? shared_.published : own_;
    SimulatedStorage* storage = from[random_.below(from.size())];
    shared_.framework.take_reference(storage);
    return storage;
  }

  void drop_own() {
    const size_t at = random_.below(own_.size());
    std::swap(own_[at], own_.back());
    SimulatedStorage* storage = own_.back();
    own_.pop_back();
    shared_.framework.drop_reference(storage);
  }

  void publish() {
    SimulatedStorage* out = nullptr;
    {
      std::lock_guard guard(shared_.published_mutex);
      const size_t at = random_.below(shared_.published.size());
      out = std::exchange(shared_.published[at], own_.back());
      own_.pop_back();
    }
    shared_.framework.drop_reference(out);
  }

  void compute(bool in_place) {
    std::vector<SimulatedStorage*> borrowed{borrow(), borrow()};
    std::vector<Argument> inputs;
    for (SimulatedStorage* each : borrowed) inputs.push_back(whole(each));
    OperatorBody body;
    body.scalar = random_.next();
    Argument target;
    if (in_place) {
      target = whole(own_[random_.below(own_.size())]);
    } else {
      body.outputs = 1;
      body.output_words[0] = static_cast<uint32_t>(8 + random_.below(200));
      body.workspace_words = static_cast<uint32_t>(random_.below(2) * 64);
    }
    auto give_back = [&] {
      for (SimulatedStorage* each : borrowed) shared_.framework.drop_reference(each);
    };
    try {
      const auto outputs =
          shared_.framework.run(body, inputs, target, remat::Access::kUpdate, {},
                                1 + random_.below(100), !random_.one_in(16), false);
      own_.insert(own_.end(), outputs.begin(), outputs.end());
    } catch (...) {
      give_back();
      throw;
    }
    give_back();
  }

  void read() {
    SimulatedStorage* storage = borrow();
    bool same = true;
    try {
      same = shared_.framework.read_matches(storage);
    } catch (...) {
      shared_.framework.drop_reference(storage);
      throw;
    }
    shared_.mismatches += !same;
    shared_.framework.drop_reference(storage);
  }

  void step() {
    const uint64_t choice = random_.below(20);
    if (choice < 9 || own_.empty()) {
      compute(false);
    } else if (choice < 12) {
      compute(true);
    } else if (choice < 14) {
      publish();
    } else if (choice < 17 || own_.size() > 12) {
      drop_own();
    } else if (choice < 19) {
      read();
    } else {
      disturb();
    }
  }

  // What a job does rarely.
  void disturb() {
    const uint64_t choice = random_.below(5);
    if (choice == 0) return shared_.runtime.end_step();  // sweeps
    SimulatedStorage* const own = own_[random_.below(own_.size())];
    if (choice == 1) return shared_.framework.replace_bytes(own, random_.next());
    DeviceLock lock(shared_.mutex);
    if (choice == 2) {
      shared_.runtime.pause_evicting(lock);
      shared_.runtime.resume_evicting();
    } else if (choice == 3) {
      shared_.runtime.escape(shared_.framework.tracked(own), lock);
    } else {
      shared_.runtime.evict_everything();
    }
  }

  static Argument whole(SimulatedStorage* storage) {
    return {storage, {0, static_cast<uint32_t>(storage->expected.size())}};
  }

  Shared& shared_;
  Random random_;
  std::vector<SimulatedStorage*> own_;
};

// What all threads of a run lock at once fits into it.
constexpr size_t kAmpleBytes = 18 * 4096;

// What has happened in all rounds: in one with an ample budget that depends on the threads' pace.
struct Totals {
  uint64_t evictions = 0, moves = 0;
};

Totals run_threads(uint64_t seed, int threads, int steps, size_t budget_bytes,
                   const std::string& policy, bool slab) {
  remat::RuntimeConfig config;
  config.policy = policy;
  config.seed = seed;
  config.chaos = seed / 3 % 3 == 0 ? remat::Chaos::kRandom : remat::Chaos::kNone;
  Shared shared(budget_bytes, config, slab);
  for (uint64_t k = 0; k < 6; ++k) shared.published.push_back(shared.framework.new_input(32, k));
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    const uint64_t own_seed = seed * 16 + static_cast<uint64_t>(t);
    running.emplace_back([&, own_seed] { Worker(shared, own_seed).run(steps); });
  }
  for (std::thread& thread : running) thread.join();
  CHECK(shared.mismatches == 0);
  CHECK(shared.gave_up == 0);
  shared.runtime.check_invariants();
  shared.allocator.check_invariants();
  CHECK(shared.allocator.statistics().reserved_peak_bytes <= budget_bytes);
  for (SimulatedStorage* each : shared.published) {
    // What was evicted for chaos may need more to come back than it ever took.
    bool same = true;
    try {
      same = shared.framework.read_matches(each);
    } catch (const OutOfMemory&) {
      ++shared.out_of_memory;
    }
    CHECK(same);
    shared.framework.drop_reference(each);
  }
  const remat::RuntimeStatistics left = shared.runtime.statistics();
  CHECK(left.values + left.records + left.storages == 0);
  CHECK(shared.allocator.statistics().allocated_bytes == 0);
  // Shortage that only other threads' locks cause is waited for, not reported. A tight budget, or a
  // published value that chaos evicted beyond what the budget can bring back, fails honestly, and
  // for the second every reader until it is replaced.
  if (budget_bytes >= kAmpleBytes && config.chaos == remat::Chaos::kNone) {
    CHECK(shared.out_of_memory < static_cast<uint64_t>(threads * steps) / 8);
  }
  return {left.evictions, shared.allocator.statistics().moves};
}

#ifdef TIDEPOOL_SANITIZED
constexpr uint64_t kRounds = 6;
#else
constexpr uint64_t kRounds = 24;
#endif

uint64_t rounds() { return std::getenv("TIDEPOOL_FULL") != nullptr ? 20 * kRounds : kRounds; }

TEST_CASE("threads share one runtime", "[stress]") {
  uint64_t evictions = 0;
  for (uint64_t seed = 0; seed < rounds(); ++seed) {
    INFO("seed " << seed);
    const std::span<const std::string> policies = remat::policy_names();
    evictions += run_threads(seed, 2 + static_cast<int>(seed % 3), 600, (6 + seed % 5 * 4) * 4096,
                             policies[seed % policies.size()], false)
                     .evictions;
  }
  CHECK(evictions > rounds());
}

TEST_CASE("threads move the contents of each other's blocks", "[stress]") {
  uint64_t moves = 0;
  for (uint64_t seed = 0; seed < rounds(); ++seed) {
    INFO("seed " << seed);
    moves += run_threads(seed, 2 + static_cast<int>(seed % 3), 600, (6 + seed % 5 * 4) * 4096,
                         seed % 2 == 0 ? "next-use" : "needed-cost", true)
                 .moves;
  }
  CHECK(moves > 0);
}

}  // namespace
}  // namespace tidepool::sim
