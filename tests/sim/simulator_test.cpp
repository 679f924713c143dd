// Whole-system simulation: allocator, lineage, policies and restoration from one seed.
#include "tests/sim/simulator.h"

#include <cstdlib>
#include <iostream>

#include "tests/support/catch.h"
#include "tests/support/death.h"

namespace tidepool::sim {
namespace {

// In a process of its own, since a failed check aborts.
bool fails(const Program& program) {
  return test::status_of_child([&] { return Simulator(program).run().failure.empty() ? 0 : 1; }) !=
         0;
}

// Leaves out operations as long as the program still fails.
Program shrink(Program program) {
  program.check_each_step = true;
  if (!fails(program)) return program;
  for (size_t chunk = program.operations.size(); chunk > 0; chunk /= 2) {
    for (size_t first = 0; first < program.operations.size();) {
      Program candidate = program;
      const auto begin = candidate.operations.begin() + static_cast<std::ptrdiff_t>(first);
      const size_t count = std::min(chunk, candidate.operations.size() - first);
      candidate.operations.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
      if (fails(candidate)) {
        program = candidate;
      } else {
        first += chunk;
      }
    }
  }
  return program;
}

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST_CASE("random programs give what an unlimited run gives") {
#ifdef TIDEPOOL_SANITIZED
  constexpr uint64_t kPrograms = 10'000;
#else
  constexpr uint64_t kPrograms = 100'000;
#endif
  const uint64_t count = std::getenv("TIDEPOOL_FULL") != nullptr ? 10 * kPrograms : kPrograms;
  const uint64_t first = from_environment("TIDEPOOL_SIM_SEED", 0);
  const uint64_t programs = from_environment("TIDEPOOL_SIM_PROGRAMS", count);
  Outcome sum;
  for (uint64_t seed = first; seed < first + programs; ++seed) {
    INFO("seed " << seed << "; TIDEPOOL_SIM_SEED with TIDEPOOL_SIM_PROGRAMS=1 shrinks it");
    const Program program = Program::make(seed);
    if (programs == 1 && fails(program)) FAIL(shrink(program).text());
    const Outcome outcome = Simulator(program).run();
    if (!outcome.failure.empty()) {
      FAIL(outcome.failure << "\n" << shrink(program).text());
    }
    sum.operations += outcome.operations;
    sum.out_of_memory += outcome.out_of_memory;
    sum.out_of_memory_below_bound += outcome.out_of_memory_below_bound;
    sum.faults += outcome.faults;
    sum.runtime.evictions += outcome.runtime.evictions;
    sum.runtime.operators_replayed += outcome.runtime.operators_replayed;
    sum.runtime.retained += outcome.runtime.retained;
    sum.runtime.ghosts += outcome.runtime.ghosts;
    sum.runtime.clones += outcome.runtime.clones;
    sum.runtime.snapshots += outcome.runtime.snapshots;
    sum.runtime.lean_plans += outcome.runtime.lean_plans;
    sum.runtime.offloads += outcome.runtime.offloads;
    sum.runtime.fetches += outcome.runtime.fetches;
    sum.runtime.tier.stores += outcome.runtime.tier.stores;
    sum.runtime.tier.refusals += outcome.runtime.tier.refusals;
    sum.allocator.windows += outcome.allocator.windows;
    sum.allocator.remaps += outcome.allocator.remaps;
    sum.allocator.moves += outcome.allocator.moves;
  }
  std::cout << programs << " programs, " << sum.operations << " operations, "
            << sum.runtime.evictions << " evictions, " << sum.runtime.operators_replayed
            << " replays, " << sum.runtime.ghosts << " ghosts, " << sum.runtime.retained
            << " retained, " << sum.runtime.clones << " clones, " << sum.runtime.snapshots
            << " snapshots, " << sum.runtime.lean_plans << " lean plans, " << sum.allocator.windows
            << " windows, " << sum.allocator.remaps << " remaps, " << sum.allocator.moves
            << " moves, " << sum.runtime.offloads << " offloads (" << sum.runtime.tier.stores
            << " copied, " << sum.runtime.tier.refusals << " refused), " << sum.runtime.fetches
            << " fetches, " << sum.out_of_memory << " out of memory ("
            << sum.out_of_memory_below_bound << " where the bound fits), " << sum.faults
            << " faults\n";
  // Each mechanism has been at work.
  CHECK(sum.runtime.evictions > programs);
  CHECK(sum.runtime.operators_replayed > programs / 4);
  CHECK(sum.runtime.fetches > programs / 8);
  CHECK(sum.runtime.offloads > sum.runtime.tier.stores);  // some left with a copy that was there
}

}  // namespace
}  // namespace tidepool::sim
