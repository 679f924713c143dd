// Simulator: runs a Program on the real allocator, runtime and policy over real memory, and
// compares every byte that is read with what an unlimited run without eviction gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "allocator/space/private_host_space.h"
#include "remat/simulate/memory/comparison_strategy.h"
#include "tests/sim/program.h"
#include "tests/support/simulated_framework.h"

namespace tidepool::sim {

struct Outcome {
  std::string failure;  // empty: as the unlimited run
  uint64_t operations = 0;
  uint64_t out_of_memory = 0;
  uint64_t out_of_memory_below_bound = 0;  // although the report's lower bound fits the budget
  uint64_t faults = 0;
  remat::RuntimeStatistics runtime;
  AllocatorStatistics allocator;
};

class Simulator {
 public:
  explicit Simulator(const Program& program);
  ~Simulator();
  Outcome run();

 private:
  struct Handle {
    SimulatedStorage* storage = nullptr;
    Slice slice;
  };
  struct LateDeath {
    SimulatedStorage* storage;
    size_t due;
  };

  struct Collective {
    Handle handle;
    remat::Storage* tracked;  // nullptr: the storage has got other bytes
    size_t due;
    uint64_t scalar;
  };

  void step(const Operation& operation);
  bool step_on_operators(const Operation& operation);
  void step_from_outside(const Operation& operation);
  void step_on_runtime(const Operation& operation);
  void compute(const Operation& operation);
  void write(const Operation& operation);
  void raw_write(const Handle& handle, uint64_t scalar);
  void escape(const Handle& handle);
  void begin_collective(const Handle& handle, const Operation& operation);
  void end_collectives(size_t now);
  void drop(size_t at, bool late);
  void report_deaths(size_t now);
  void read(const Handle& handle);
  void finish();
  void check();
  void fail(const std::string& what);

  size_t pick(uint32_t operand) const;
  Argument argument(uint32_t operand) const;
  std::vector<Argument> arguments(const Operation& operation, size_t most) const;
  void add_outputs(const std::vector<SimulatedStorage*>& outputs);
  // Runs `action`; counts the errors that a job may see.
  template <typename Action>
  bool attempt(Action&& action);

  const Program& program_;
  PrivateHostSpace space_;
  DeviceMutex mutex_;
  remat::ComparisonStrategy strategy_;  // followed if the program says so
  BudgetedAllocator allocator_;
  SimulatedFramework framework_;
  std::unique_ptr<remat::Runtime> runtime_;
  std::vector<Handle> handles_;
  std::vector<LateDeath> late_;
  std::vector<Collective> collectives_;
  uint64_t draws_ = 0;
  size_t now_ = 0;
  bool forked_ = false;
  uint64_t evictions_at_fork_ = 0;
  Outcome outcome_;
};

}  // namespace tidepool::sim
