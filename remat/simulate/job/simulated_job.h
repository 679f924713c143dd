// SimulatedJob: runs the events of a trace on the allocator, runtime and policy of production, with
// a virtual clock in place of kernels: an operator allocates its outputs, and its recorded cost
// passes. The job is also the runtime's backend: a replay does the same. Where the trace has
// blocks, operators allocate and free exactly what they did in the job, blocks outside storages
// included.
// Owns the job's storages; does not own the allocator or the runtime. Not thread safe.
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
#include "remat/simulate/job/stop_token.h"
#include "remat/simulate/job/work_log.h"
#include "remat/simulate/memory/comparison_strategy.h"
#include "remat/simulate/memory/simulated_tier.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

// TimeIsUp: the virtual clock has passed its limit, or a stop was requested.
class TimeIsUp : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// JobCounts: sums over all that the job has done so far.
struct JobCounts {
  uint64_t compute_ns = 0;  // the time of operators, replays, copies and maps
  uint64_t copied_bytes = 0;
  uint64_t tight_requests = 0;       // requests that had something evicted
  double free_share_when_tight = 0;  // the sum of free bytes / budget after each of them
};

class SimulatedJob final : public Backend {
 public:
  // `usable_bytes`: the most bytes that can be handed out at once. `partition`: the strategy that
  // is told from which end each request is cut, as in Coop; nullptr if results are not kept apart.
  SimulatedJob(const Trace& trace, BudgetedAllocator& allocator, size_t usable_bytes,
               ComparisonStrategy* partition = nullptr);
  void set_runtime(Runtime* runtime) { runtime_ = runtime; }
  // The runtime's tier; without this call it has none.
  void set_tier(SimulatedTier* tier) { tier_ = tier; }
  // From now on `log` gets a line for each eviction, restoration, replay and copy; nullptr ends
  // that.
  void set_log(WorkLog* log) { log_ = log; }

  // From now on the clock may advance by `ns`; the event that advances it further throws TimeIsUp.
  void set_time_limit(uint64_t ns) { limit_ns_ = counts_.compute_ns + ns; }

  // Once `stop` says so, the next event throws TimeIsUp. nullptr stands for no such end.
  void set_stop(StopToken* stop) { stop_ = stop; }

  // Says whether contents written in place can be made again; if not, they are roots, as they are
  // without Coop's recomputable in-place.
  void set_updates_recorded(bool on) { updates_recorded_ = on; }

  // Runs one event. Throws: OutOfMemory, RestorationError, TimeIsUp.
  void run(const TraceEvent& event);

  // Makes all storages that are alive resident at once. Throws: as run().
  void restore_all();

  // Ends an iteration: results of operators die; roots that are alive stay for the next iteration.
  void drop_results();

  const JobCounts& counts() const { return counts_; }
  // How often each storage of the trace was evicted so far.
  std::span<const uint32_t> evictions() const { return evictions_; }
  // The greatest number of bytes that were handed out at once since the last call.
  size_t take_peak_bytes();

  void execute(const Replay& replay) override;
  bool detach(Storage& storage) override;
  bool attach(Storage& storage, void* address) override;
  void forget(Storage& storage) override;
  void copy(void* to, const void* from, size_t bytes) override;
  uint64_t copy_ns(size_t bytes) const override;

 private:
  // Does what run() does, but for the time that transfers to and from a tier have taken.
  void run_untimed(const TraceEvent& event);

  struct JobStorage {
    void* address = nullptr;
    Storage* tracked = nullptr;
    StorageIndex index{};
    bool alive = false;
  };

  JobStorage& at(StorageIndex index) { return storages_[number(index)]; }
  bool has_bytes(StorageIndex index) const { return trace_.storages[number(index)].bytes > 0; }
  void begin(StorageIndex index, void* address);
  void end(StorageIndex index);
  void run_operator(uint32_t index);
  // The contents of a storage have changed unseen.
  void cut(const TraceOperator& op);
  Storage* tracked(StorageIndex index);
  // Calls visit(StorageIndex, Access) for each operand that has bytes.
  template <class Visit>
  void for_each_operand(const TraceOperator& op, Visit&& visit);
  void add_operands(const TraceOperator& op, OperatorCall& call);
  // Whether the operator makes the storage. A result that is there before the operator runs is an
  // operand instead.
  bool is_made_by(const TraceOperator& op, StorageIndex output) const;
  void add_early_outputs(const TraceOperator& op, OperatorCall& call);
  // Allocates and frees blocks as the operator did. Returns the addresses of its blocks in the
  // order of their allocation, with nullptr for those that it freed itself.
  std::vector<void*> run_changes(const TraceOperator& op, bool replayed);
  uint32_t first_block(const TraceOperator& op) const;
  void change_block(const BlockChange& change);
  // Allocates the outputs, but for those that are there before the operator runs.
  std::vector<void*> make_outputs(const TraceOperator& op);
  std::vector<void*> allocate_outputs(const TraceOperator& op);
  void replay_with_blocks(const TraceOperator& op, std::span<void*> outputs);
  void* allocate(size_t bytes, End end = End::kLow);
  void free_bytes(void* address) { runtime_->free(address); }
  void advance(uint64_t ns);
  void wait_for_transfers(const void* address, size_t bytes);

  const Trace& trace_;
  BudgetedAllocator& allocator_;
  Runtime* runtime_ = nullptr;
  SimulatedTier* tier_ = nullptr;
  const size_t usable_bytes_;
  ComparisonStrategy* const partition_;
  std::vector<RecordType> types_;  // by the operator's name; records refer to them
  std::vector<End> ends_;          // by the operator's name; all low without a partition
  std::vector<JobStorage> storages_;
  std::vector<void*> blocks_;      // by number; nullptr if it is freed, or a storage has it
  std::vector<uint32_t> calls_;    // by operator: how many calls come before it
  std::vector<uint32_t> created_;  // the storages that operators made in this iteration
  JobCounts counts_;
  uint64_t limit_ns_ = UINT64_MAX;
  StopToken* stop_ = nullptr;
  bool updates_recorded_ = true;
  std::vector<uint32_t> evictions_;
  uint64_t evictions_seen_ = 0;
  uint64_t remapped_seen_ = 0, remaps_seen_ = 0;
  uint64_t tier_wait_seen_ = 0;
  size_t peak_bytes_ = 0;
  WorkLog* log_ = nullptr;
};

}  // namespace tidepool::remat
