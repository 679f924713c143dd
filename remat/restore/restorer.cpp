#include "remat/restore/restorer.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/container/inlined_vector.h"
#include "allocator/base/device_error.h"
#include "allocator/base/steady_clock.h"
#include "fmt/format.h"
#include "remat/restore/restoration_error.h"

namespace tidepool::remat {
namespace {

using Mode = RestorationPlan::Mode;

bool is_missing(const Storage* storage) {
  return !storage->dead && storage->evicted && !storage->dying;
}

// What contents are to the job, in a user's words.
std::string describe(const Value& value) {
  switch (value.storage != nullptr ? value.storage->role : Role::kOther) {
    case Role::kParameter:
      return "a parameter";
    case Role::kOptimizerState:
      return "optimizer state";
    case Role::kInput:
      return "an input";
    case Role::kGradient:
      return "a gradient";
    case Role::kOther:
    case Role::kCount:
      break;
  }
  return value.producer != nullptr ? fmt::format("a result of {}", value.producer->type->name)
                                   : "a tensor that cannot be computed again";
}

class TurnScope {
 public:
  TurnScope(RestorationQueue& queue, DeviceLock& lock) : queue_(queue) { queue_.take_turn(lock); }
  ~TurnScope() { queue_.end_turn(); }
  TurnScope(const TurnScope&) = delete;
  TurnScope& operator=(const TurnScope&) = delete;

 private:
  RestorationQueue& queue_;
};

}  // namespace

// One replay that is under way.
struct Restorer::Step {
  Record& record;
  StreamId stream;
  Value* written = nullptr;  // the value that the record updates
  void* target = nullptr;    // the block that it writes into; ours until a value has it
  absl::InlinedVector<void*, 8> inputs = {};
  absl::InlinedVector<void*, 4> outputs = {};
  absl::InlinedVector<size_t, 4> output_bytes = {};
};

void Restorer::make(RestorationPlan& plan, std::span<Storage* const> storages) {
  const uint64_t start = steady_now_ns();
  for (const Storage* storage : storages) {
    if (is_missing(storage)) plan.add(*storage->current);
  }
  ++statistics.plans;
  statistics.longest_plan = std::max<uint64_t>(statistics.longest_plan, plan.steps());
  statistics.plan_peak_bytes =
      std::max<uint64_t>(statistics.plan_peak_bytes, plan.estimate_peak_bytes());
  statistics.planning_ns += steady_now_ns() - start;
}

void Restorer::restore(std::span<Storage* const> storages, DeviceLock& lock) {
  TurnScope turn(contents_.queue, lock);
  Mode mode = Mode::kFirm;
  uint64_t allowed = 0;
  const auto steps_done = [this] {
    return statistics.operators_replayed + statistics.copies_loaded;
  };
  uint64_t done_before = steps_done();
  std::optional<OutOfMemoryReport> shortage;
  std::unique_ptr<RestorationPlan> plan;
  while (std::any_of(storages.begin(), storages.end(), is_missing)) {
    auto next = std::make_unique<RestorationPlan>(contents_, mode);
    make(*next, storages);
    plan = std::move(next);  // the ghosts of the plan before stay, where they are needed again
    if (allowed == 0) allowed = kPatience * plan->steps() + kLeastPatience;
    if (mode == Mode::kLean) ++statistics.lean_plans;
    try {
      run(*plan, lock);
    } catch (const OutOfMemory& error) {
      if (mode == Mode::kLean) throw;
      mode = Mode::kLean;
      shortage = error.report();
      done_before = steps_done();
      allowed = kPatience * plan->steps() + kLeastPatience;
    }
    if (steps_done() - done_before > allowed) {
      if (shortage) throw OutOfMemory(*shortage);  // what the plan needs does not fit at once
      throw RestorationError(fmt::format(
          "restoring makes no progress: {} operators replayed or copies loaded, {} of {} storages "
          "still missing",
          steps_done() - done_before, std::count_if(storages.begin(), storages.end(), is_missing),
          storages.size()));
    }
  }
  plan.reset();
  contents_.dependent_cut.sweep_if_due();
}

void Restorer::make_resident(std::span<Storage* const> storages, DeviceLock& lock) {
  restore(storages, lock);
  for (const Storage* storage : storages) {
    if (!storage->dead && storage->evicted) {
      throw RestorationError("cannot restore a storage that is being freed");
    }
  }
  const StreamId stream = contents_.replay_order.stream();
  for (Storage* storage : storages) contents_.replay_order.before_use(*storage, stream, lock);
}

void Restorer::run(RestorationPlan& plan, DeviceLock& lock) {
  // Restorations nest where a kernel that is replayed reads what is evicted.
  RestorationPlan* const outer = std::exchange(running_plan_, &plan);
  const absl::Cleanup end = [&] { running_plan_ = outer; };
  while (!plan.is_done()) {
    if (!plan.next_is_ready()) return;  // something was evicted since; the caller makes a new plan
    run_next(plan, lock);
  }
}

void Restorer::run_next(RestorationPlan& plan, DeviceLock& lock) {
  const RestorationPlan::Step& next = plan.next();
  if (next.record != nullptr) {
    run_record(plan, *next.record, lock);
  } else if (!next.loaded->available()) {
    load(*next.loaded, lock);
  }
  plan.finish_next();
}

void Restorer::load(Value& value, DeviceLock& lock) {
  const StreamId stream = contents_.replay_order.stream();
  void* block = nullptr;
  {
    Unlocked unlocked(lock);
    block = contents_.allocator.allocate(value.bytes, PlacementHint::kTransient, stream);
  }
  load_into(block, value, stream, lock);
}

bool Restorer::prefetch(Storage& storage, Room room, DeviceLock& lock) {
  if (!contents_.queue.is_free()) return false;
  const size_t bytes = storage.current->bytes;
  const StreamId stream = contents_.replay_order.stream();
  BudgetedAllocator& allocator = contents_.allocator;
  constexpr PlacementHint kHint = PlacementHint::kTransient;
  void* block = allocator.allocate_free_locked(bytes, kHint, stream);
  if (block == nullptr && room == Room::kMade) {
    block = allocator.allocate_window_locked(bytes, kHint, stream, lock);
  }
  if (block == nullptr) return false;
  TurnScope turn(contents_.queue, lock);
  // The lock may have been released meanwhile.
  if (!is_missing(&storage) || !storage.current->copied) {
    allocator.free_locked(block);
    return false;
  }
  Value& value = *storage.current;
  RestorationPlan plan(contents_, Mode::kFirm);  // keeps the value and its copy
  plan.add(value);
  try {
    load_into(block, value, stream, lock);
  } catch (const TierError&) {  // whoever reads the storage will be told
    return false;
  } catch (const DeviceError&) {
    return false;
  }
  plan.finish_next();
  return true;
}

// The block is the value's afterwards, or was given back, also where this throws.
void Restorer::load_into(void* block, Value& value, StreamId stream, DeviceLock& lock) {
  Copies& copies = contents_.residency.copies;
  const TierSlot slot = copies.slot_of(value);
  const TierStreams* const streams = copies.streams();
  // Loads come one after the other, because they have the turn.
  contents_.residency.close_copies(CopyDirection::kIn);
  try {
    {
      // The block is used until the copy has run, also by one of which only a part was enqueued.
      const absl::Cleanup used = [&] {
        if (streams == nullptr) return;
        const StreamUse use = contents_.allocator.use_so_far(streams->in);
        contents_.allocator.record_use_locked(block, use);
      };
      Unlocked unlocked(lock);
      copies.tier()->load(slot, block, stream);
    }
    require_equal(&value, block);
  } catch (const TierError& error) {
    contents_.allocator.free_locked(block);
    throw TierError(fmt::format("{} ({})", error.what(), describe(value)));
  } catch (...) {
    contents_.allocator.free_locked(block);
    throw;
  }
  ++statistics.copies_loaded;
  statistics.loaded_bytes += value.bytes;
  give(&value, block, streams != nullptr ? streams->in : stream);  // uses wait for the copy
  // Without a storage the value goes back to having only its copy.
  if (value.storage != nullptr && !value.storage->evicted) copies.loaded(value);
}

void Restorer::run_record(RestorationPlan& plan, Record& record, DeviceLock& lock) {
  Step step{record, contents_.replay_order.stream()};
  plan.lock_next();
  running_ = {&step.record, contents_.allocator.allocations()};
  try {
    take_target(step, lock);
    execute(step, lock);
    require_equal(step);
  } catch (...) {
    if (step.target != nullptr) contents_.allocator.free_locked(step.target);
    running_ = {};
    plan.unlock_next();
    throw;
  }
  running_ = {};
  if (record.writes()) {
    give(record.outputs[0], step.target, step.stream);
  } else {
    for (size_t k = 0; k < step.outputs.size(); ++k) {
      if (step.outputs[k] != nullptr) give(record.outputs[k], step.outputs[k], step.stream);
    }
  }
  plan.unlock_next();
}

// Takes the block that the record writes into: the ghost that it updates, if this is the last use
// of it, or else a copy.
void Restorer::take_target(Step& step, DeviceLock& lock) {
  const Record& record = step.record;
  if (!record.writes()) return;
  size_t bytes = record.overwritten_bytes;
  const void* from = nullptr;
  if (record.written_edge != Record::kNoEdge) {
    Value& written = *record.edges[record.written_edge].value;
    step.written = &written;
    bytes = written.bytes;
    contents_.replay_order.before_use(written, step.stream, lock);
    const auto mine = static_cast<uint32_t>(
        std::count_if(record.edges, record.edges + record.edge_count,
                      [&](const Edge& edge) { return edge.value == &written; }));
    if (written.kept != nullptr && written.producer != nullptr && written.uses == mine) {
      step.target = contents_.residency.take_kept(written);
      contents_.residency.availability_changed(written);
    } else {
      from = written.address();
    }
  }
  if (step.target == nullptr) {
    Unlocked unlocked(lock);
    step.target = contents_.allocator.allocate(bytes, PlacementHint::kTransient, step.stream);
    if (from != nullptr) contents_.backend.copy(step.target, from, bytes);
  }
  if (from != nullptr) {
    contents_.replay_order.after_use(*step.written, step.stream, lock);
    ++statistics.clones;
  }
}

void Restorer::execute(Step& step, DeviceLock& lock) {
  const Record& record = step.record;
  for (size_t k = 0; k < record.edge_count; ++k) {
    Value* value = record.edges[k].value;
    const bool is_lost = value->lost && !value->copied;
    if (is_lost || contents_.residency.watch.is_changed(*value)) [[unlikely]] {
      throw written_unseen_error(record, *value);
    }
    if (value != step.written) contents_.replay_order.before_use(*value, step.stream, lock);
    step.inputs.push_back(value == step.written ? step.target : value->address());
  }
  if (!record.writes()) {
    for (size_t k = 0; k < record.output_count; ++k) {
      const Value* output = record.outputs[k];
      const bool wanted = output != nullptr && !output->available() &&
                          (output->live_and_evicted() || output->uses > 0);
      step.outputs.push_back(wanted ? Replay::wanted() : nullptr);
      step.output_bytes.push_back(wanted ? output->bytes : 0);
    }
  }
  const absl::InlinedVector<void*, 4> asked = step.outputs;
  Replay replay;
  replay.record = &record;
  replay.inputs = {step.inputs.data(), step.inputs.size()};
  replay.target = step.target;
  replay.outputs = {step.outputs.data(), step.outputs.size()};
  replay.output_bytes = {step.output_bytes.data(), step.output_bytes.size()};
  const uint64_t start = steady_now_ns();
  {
    Unlocked unlocked(lock);
    contents_.backend.execute(replay);
  }
  statistics.replay_ns += steady_now_ns() - start;
  ++statistics.operators_replayed;
  statistics.replayed_cost_ns += record.cost_ns;
  for (size_t k = 0; k < asked.size(); ++k) {
    if (asked[k] == nullptr) step.outputs[k] = nullptr;
  }
  try {
    for (size_t k = 0; k < record.edge_count; ++k) {
      Value* value = record.edges[k].value;
      if (value != step.written) contents_.replay_order.after_use(*value, step.stream, lock);
    }
  } catch (...) {
    free_outputs(step);
    throw;
  }
  for (size_t k = 0; k < asked.size(); ++k) {
    const bool given = step.outputs[k] != nullptr && step.outputs[k] != asked[k];
    if (asked[k] == nullptr || given) continue;
    free_outputs(step);
    throw RestorationError(fmt::format("replaying {} gave no output {}", record.type->name, k));
  }
}

void Restorer::free_outputs(Step& step) {
  for (void*& output : step.outputs) {
    if (output != nullptr && output != Replay::wanted()) contents_.allocator.free_locked(output);
    output = nullptr;
  }
}

// Compares what has come back with what was evicted, before the job can read it.
void Restorer::require_equal(const Value* value, const void* address) const {
  const bool is_for_job = value != nullptr && address != nullptr && value->live_and_evicted();
  if (!is_for_job || value->available()) return;
  if (contents_.residency.check.is_equal(*value, address)) return;
  const char* const maker = value->producer != nullptr ? value->producer->type->name : "(a root)";
  throw RestorationError(fmt::format(
      "what {} had made came back with other bits: it, or an operator that reads or makes what it "
      "needs, is trusted to give the same bits each time and to write nothing unseen, but does not "
      "(--keep NAME keeps what an operator makes)",
      maker));
}

void Restorer::require_equal(Step& step) {
  const Record& record = step.record;
  if (record.writes()) return require_equal(record.outputs[0], step.target);
  try {
    for (size_t k = 0; k < step.outputs.size(); ++k) {
      require_equal(record.outputs[k], step.outputs[k]);
    }
  } catch (...) {
    free_outputs(step);
    throw;
  }
}

void Restorer::give(Value* value, void* address, StreamId stream) {
  if (value != nullptr && !value->available()) {
    contents_.replay_order.after_making(*value, stream);
    if (value->live_and_evicted() && contents_.residency.install(*value->storage, address)) return;
    if (value->uses > 0) {
      contents_.residency.keep(*value, address);
      contents_.residency.availability_changed(*value);
      ++statistics.ghosts;
      return;
    }
  }
  contents_.allocator.free_locked(address);
}

}  // namespace tidepool::remat
