// SimulatedJob: runs the events of a trace on the allocator, runtime and policy of production, with
// a virtual clock in place of kernels: an operator allocates its outputs, and its recorded cost
// passes. Also the runtime's backend: a replay does the same. Where the trace has blocks, operators
// allocate and free exactly what they did in the job, and what lies outside storages is there, too.
// Owns the job's storages; not the allocator or the runtime. Not thread safe.
// Invariants: (1) a storage has bytes, is evicted, or is dead; (2) time only grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "allocator/budgeted_allocator.h"
#include "remat/lineage/backend.h"
#include "remat/runtime.h"
#include "remat/simulate/comparison_strategy.h"
#include "remat/simulate/stop_token.h"
#include "remat/simulate/work_log.h"
#include "remat/trace/trace.h"

namespace tidepool::plan {

// The virtual clock has passed its limit.
class TimeIsUp : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What the job has done so far.
struct JobCounts {
  uint64_t compute_ns = 0;  // operators, replays, copies and maps
  uint64_t copied_bytes = 0;
  uint64_t tight_requests = 0;       // that had something evicted
  double free_share_when_tight = 0;  // sum over those: free bytes afterwards / budget
};

class SimulatedJob final : public remat::Backend {
 public:
  // `usable_bytes`: what can be handed out at most at once. `partition`: who is told which results
  // are kept apart, as Coop has it; nullptr: nobody.
  SimulatedJob(const Trace& trace, BudgetedAllocator& allocator, size_t usable_bytes,
               ComparisonStrategy* partition = nullptr);
  void set_runtime(remat::Runtime* runtime) { runtime_ = runtime; }
  // Who writes down what is done for the job from now on; nullptr: nobody.
  void set_log(WorkLog* log) { log_ = log; }

  // From now on the clock may advance by this much; then TimeIsUp is thrown.
  void set_time_limit(uint64_t ns) { limit_ns_ = counts_.compute_ns + ns; }

  // Once it has passed, the next event throws TimeIsUp. nullptr: never.
  void set_stop(StopToken* stop) { stop_ = stop; }

  // Off: what is written in place is a root, as without Coop's recomputable in-place.
  void set_updates_recorded(bool on) { updates_recorded_ = on; }

  // Runs one event. Throws: OutOfMemory, remat::RestorationError, TimeIsUp.
  void run(const TraceEvent& event);

  // All that is alive has to be resident at once. Throws as above.
  void restore_all();

  // Ends an iteration: what operators have made dies; roots that are alive stay for the next one.
  void drop_results();

  const JobCounts& counts() const { return counts_; }
  // By storage of the trace: how often it was evicted so far.
  std::span<const uint32_t> evictions() const { return evictions_; }
  // Greatest number of bytes handed out at once since the last call.
  size_t take_peak_bytes();

  void execute(const remat::Replay& replay) override;
  bool detach(remat::Storage& storage) override;
  bool attach(remat::Storage& storage, void* address) override;
  void forget(remat::Storage& storage) override;
  void copy(void* to, const void* from, size_t bytes) override;
  uint64_t copy_ns(size_t bytes) const override;

 private:
  // Does what run() does, but for the time that transfers to and from a tier have taken.
  void run_untimed(const TraceEvent& event);

  struct Storage {
    void* address = nullptr;
    remat::Storage* tracked = nullptr;
    StorageIndex index{};
    bool alive = false;
  };

  Storage& at(StorageIndex index) { return storages_[number(index)]; }
  bool has_bytes(StorageIndex index) const { return trace_.storages[number(index)].bytes > 0; }
  void begin(StorageIndex index, void* address);
  void end(StorageIndex index);
  void run_operator(uint32_t index);
  // The contents of a storage have changed unseen.
  void cut(const TraceOperator& op);
  remat::Storage* tracked(StorageIndex index);
  void add_operands(const TraceOperator& op, remat::OperatorCall& call);
  // What is there before the operator runs is its operand, if also a result.
  bool is_made_by(const TraceOperator& op, StorageIndex output) const;
  void add_early_outputs(const TraceOperator& op, remat::OperatorCall& call);
  // The operator's own blocks, in the order in which they are allocated; nullptr for what it frees
  // itself. `first`: the number of the first.
  std::vector<void*> run_changes(const TraceOperator& op, bool replayed);
  uint32_t first_block(const TraceOperator& op) const;
  void change_block(const BlockChange& change);
  // Without those that are there before it runs.
  std::vector<void*> make_outputs(const TraceOperator& op);
  std::vector<void*> allocate_outputs(const TraceOperator& op);
  void replay_with_blocks(const TraceOperator& op, std::span<void*> outputs);
  void* allocate(size_t bytes, End end = End::kLow);
  void free_bytes(void* address) { runtime_->free(address); }
  void advance(uint64_t ns);

  const Trace& trace_;
  BudgetedAllocator& allocator_;
  remat::Runtime* runtime_ = nullptr;
  const size_t usable_bytes_;
  ComparisonStrategy* const partition_;
  std::vector<remat::RecordType> types_;  // by name of operator; records refer to them
  std::vector<End> ends_;                 // likewise; all low without a partition
  std::vector<Storage> storages_;
  std::vector<void*> blocks_;      // by number; nullptr: freed, or a storage's
  std::vector<uint32_t> calls_;    // by operator: how many calls there are before it
  std::vector<uint32_t> created_;  // by operators, in this iteration
  JobCounts counts_;
  uint64_t limit_ns_ = UINT64_MAX;
  StopToken* stop_ = nullptr;
  bool updates_recorded_ = true;
  std::vector<uint32_t> evictions_;
  uint64_t evictions_seen_ = 0;
  uint64_t remapped_seen_ = 0;
  uint64_t tier_wait_seen_ = 0;
  size_t peak_bytes_ = 0;
  WorkLog* log_ = nullptr;
};

}  // namespace tidepool::plan
