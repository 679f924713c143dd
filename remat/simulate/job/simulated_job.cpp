#include "remat/simulate/job/simulated_job.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "allocator/base/check.h"
#include "remat/locked_storage.h"
#include "remat/operator_call.h"
#include "remat/simulate/job/recorded_costs.h"
#include "remat/simulate/memory/coop_placement.h"

namespace tidepool::remat {
namespace {

// The body of a record is the number of its operator.
uint32_t operator_of(const Record& record) { return *static_cast<const uint32_t*>(record.body); }

Role role_of(RootKind kind) {
  switch (kind) {
    case RootKind::kParameter:
      return Role::kParameter;
    case RootKind::kOptimizerState:
      return Role::kOptimizerState;
    case RootKind::kInput:
      return Role::kInput;
    default:
      return Role::kOther;
  }
}

}  // namespace

SimulatedJob::SimulatedJob(const Trace& trace, BudgetedAllocator& allocator, size_t usable_bytes,
                           ComparisonStrategy* partition)
    : trace_(trace),
      allocator_(allocator),
      usable_bytes_(usable_bytes),
      partition_(partition),
      ends_(trace.names.size(), End::kLow),
      storages_(trace.storages.size()),
      evictions_(trace.storages.size()) {
  for (size_t k = 0; partition != nullptr && k < ends_.size(); ++k) {
    ends_[k] = coop_placement(trace.names[k]);
  }
  for (const std::string& name : trace.names) types_.push_back({name.c_str()});
  for (size_t k = 0; k < storages_.size(); ++k) storages_[k].index = static_cast<StorageIndex>(k);
  uint32_t calls = 0;
  for (const TraceOperator& op : trace.operators) {
    calls_.push_back(calls);
    calls += trace.names[op.name] != kCutName;
  }
}

void SimulatedJob::advance(uint64_t ns) {
  counts_.compute_ns += ns;
  if (counts_.compute_ns > limit_ns_) throw TimeIsUp("the limit on computing was passed");
}

void* SimulatedJob::allocate(size_t bytes, End end) {
  if (partition_ != nullptr) partition_->set_end(end);
  void* address = allocator_.allocate(trace_.aligned(bytes));
  const AllocatorStatistics now = allocator_.statistics();
  peak_bytes_ = std::max(peak_bytes_, now.requested_bytes);
  if (now.evictions != evictions_seen_) {
    evictions_seen_ = now.evictions;
    ++counts_.tight_requests;
    const size_t free = usable_bytes_ - std::min(usable_bytes_, now.requested_bytes);
    counts_.free_share_when_tight += static_cast<double>(free) / static_cast<double>(usable_bytes_);
  }
  const uint64_t pages = (now.remapped_bytes - std::exchange(remapped_seen_, now.remapped_bytes)) /
                         allocator_.page_bytes();
  const uint64_t drains = now.remaps - std::exchange(remaps_seen_, now.remaps);
  const uint64_t remap_ns = pages * trace_.facts.map_ns + drains * trace_.facts.drain_ns;
  try {
    if (remap_ns > 0) advance(remap_ns);
    wait_for_transfers(address, trace_.aligned(bytes));
  } catch (...) {
    allocator_.free(address);
    throw;
  }
  return address;
}

size_t SimulatedJob::take_peak_bytes() {
  return std::exchange(peak_bytes_, allocator_.statistics().requested_bytes);
}

void SimulatedJob::run(const TraceEvent& event) {
  run_untimed(event);
  if (tier_ == nullptr || tier_->runs_beside()) return;
  const uint64_t waited_ns = runtime_->tier_wait_ns();
  advance(waited_ns - std::exchange(tier_wait_seen_, waited_ns));
}

// Waits, as a stream does, until no transfer uses the block.
void SimulatedJob::wait_for_transfers(const void* address, size_t bytes) {
  if (tier_ == nullptr || !tier_->runs_beside()) return;
  const uint64_t until_ns = tier_->until(address, bytes);
  if (until_ns <= counts_.compute_ns) return;
  const uint64_t wait_ns = until_ns - counts_.compute_ns;
  tier_->note_wait(address, bytes, wait_ns);
  advance(wait_ns);
}

void SimulatedJob::run_untimed(const TraceEvent& event) {
  if (stop_ != nullptr && stop_->should_stop()) throw TimeIsUp("stopped");
  const auto storage = static_cast<StorageIndex>(event.index);
  switch (event.kind) {
    case EventKind::kRoot: {
      const TraceStorage& root = trace_.storages[event.index];
      if (at(storage).alive) {  // this root has outlived the iteration before
        if (trace_.facts.blocks) free_bytes(std::exchange(blocks_[root.block], nullptr));
        break;
      }
      void* address = nullptr;
      if (trace_.facts.blocks) {
        address = std::exchange(blocks_[root.block], nullptr);
      } else if (root.bytes > 0) {
        address = allocate(root.bytes);
      }
      begin(storage, address);
      // A job has used it by then, so that it may leave for the tier.
      if (tier_ != nullptr && address != nullptr) tracked(storage);
      break;
    }
    case EventKind::kOperator:
      run_operator(event.index);
      break;
    case EventKind::kRelease:
      end(storage);
      break;
    case EventKind::kUse:
      break;  // one stream does all the work here
    case EventKind::kRole:
      if (has_bytes(storage)) tracked(storage)->role = role_of(event.role);
      break;
    case EventKind::kStep:
      runtime_->end_step();
      break;
    case EventKind::kBlock:
      change_block(trace_.block_changes[event.index]);
      break;
  }
}

// Storages without bytes are neither allocated nor tracked.
void SimulatedJob::begin(StorageIndex index, void* address) {
  JobStorage& storage = at(index);
  TIDEPOOL_CHECK(!storage.alive, "storage %zu is alive already", number(index));
  storage.alive = true;
  storage.address = address;
  if (log_ == nullptr || !log_->has_blocks() || address == nullptr) return;
  log_->placed(static_cast<uint32_t>(index), allocator_.offset(address));
}

void SimulatedJob::end(StorageIndex index) {
  JobStorage& storage = at(index);
  TIDEPOOL_CHECK(storage.alive, "storage %zu is dead already", number(index));
  storage.alive = false;
  if (void* address = std::exchange(storage.address, nullptr)) {
    free_bytes(address);
  } else if (storage.tracked != nullptr) {
    runtime_->on_evicted_storage_freed(storage.tracked);
  }
}

Storage* SimulatedJob::tracked(StorageIndex index) {
  JobStorage& storage = at(index);
  if (storage.tracked == nullptr) {
    const TraceStorage& found = trace_.storages[number(index)];
    const size_t bytes = trace_.facts.blocks ? found.bytes : trace_.aligned(found.bytes);
    storage.tracked = runtime_->track(&storage, storage.address, bytes, RootReason::kUntracked);
    storage.tracked->role = role_of(found.kind);
  }
  return storage.tracked;
}

template <class Visit>
void SimulatedJob::for_each_operand(const TraceOperator& op, Visit&& visit) {
  auto visit_one = [&](StorageIndex index, Access access) {
    if (has_bytes(index)) visit(index, access);
  };
  for (const TraceArgument& argument : trace_.arguments(op)) {
    visit_one(argument.storage, argument.access);
  }
  if (op.arguments > 0) return;
  for (const TraceWrite& write : trace_.writes(op)) visit_one(write.storage, write.access);
  for (const StorageIndex read : trace_.reads(op)) visit_one(read, Access::kRead);
}

void SimulatedJob::add_operands(const TraceOperator& op, OperatorCall& call) {
  for_each_operand(op, [&](StorageIndex index, Access access) {
    call.add(tracked(index), access);
    if (access == Access::kUpdate && !updates_recorded_) call.refuse(RootReason::kUnsupported);
  });
}

std::vector<void*> SimulatedJob::allocate_outputs(const TraceOperator& op) {
  std::vector<void*> addresses;
  void* workspace = nullptr;
  try {
    const End end = ends_[op.name];
    if (op.workspace_bytes > 0) workspace = allocate(op.workspace_bytes, end);
    for (const StorageIndex output : trace_.outputs(op)) {
      const size_t bytes = trace_.storages[number(output)].bytes;
      addresses.push_back(bytes > 0 ? allocate(bytes, end) : nullptr);
    }
    advance(op.cost_ns);
  } catch (...) {
    if (workspace != nullptr) free_bytes(workspace);
    for (void* address : addresses) {
      if (address != nullptr) free_bytes(address);
    }
    throw;
  }
  if (workspace != nullptr) free_bytes(workspace);
  return addresses;
}

void SimulatedJob::run_operator(uint32_t index) {
  const TraceOperator& op = trace_.operators[index];
  if (is_cut(trace_, op)) return cut(op);
  OperatorCall call(*runtime_);
  {
    DeviceLock lock(allocator_.mutex());
    add_early_outputs(op, call);
    add_operands(op, call);
    call.set_type(types_[op.name], op.site);
    if (!op.recordable) call.refuse(RootReason::kUnsupported);
    if (call.prepare(lock)) {
      Record* record = call.begin_record(types_[op.name], sizeof index, op.outputs);
      *static_cast<uint32_t*>(record->body) = index;
    }
  }
  for_each_operand(op, [&](StorageIndex operand, Access) {
    const Storage& storage = *tracked(operand);
    wait_for_transfers(storage.address, storage.current->bytes);
  });
  if (log_ != nullptr) log_->begin_call(calls_[index]);
  const std::vector<void*> addresses = make_outputs(op);
  DeviceLock lock(allocator_.mutex());
  absl::InlinedVector<Storage*, 4> fresh;
  for (const StorageIndex output : trace_.outputs(op)) {
    if (!is_made_by(op, output)) continue;
    void* address = addresses[fresh.size()];
    begin(output, address);
    created_.push_back(static_cast<uint32_t>(output));
    fresh.push_back(address != nullptr ? tracked(output) : nullptr);
  }
  call.finish(lock, {fresh.data(), fresh.size()}, op.cost_ns);
}

// Does what the framework does where it hands out the address of a storage: its contents are cut
// from their lineage, and the storage is never evicted again.
void SimulatedJob::cut(const TraceOperator& op) {
  DeviceLock lock(allocator_.mutex());
  for (const TraceWrite& write : trace_.writes(op)) {
    if (!has_bytes(write.storage)) continue;
    Storage* storage = tracked(write.storage);
    const LockedStorage locked(*runtime_, storage);
    runtime_->make_resident({&storage, 1}, lock);
    runtime_->cut(storage, RootReason::kRawWrite, lock);
    storage->fixed = true;
  }
}

void SimulatedJob::restore_all() {
  std::vector<Storage*> locked;
  auto unlock = [&] {
    for (Storage* storage : locked) runtime_->unlock_storage(storage);
  };
  DeviceLock lock(allocator_.mutex());
  try {
    for (JobStorage& storage : storages_) {
      if (!storage.alive || storage.tracked == nullptr) continue;
      runtime_->lock_storage(storage.tracked);
      locked.push_back(storage.tracked);
      if (storage.tracked->evicted) runtime_->make_resident({&locked.back(), 1}, lock);
    }
  } catch (...) {
    unlock();
    throw;
  }
  unlock();
}

void SimulatedJob::drop_results() {
  for (const uint32_t index : created_) {
    if (storages_[index].alive) end(static_cast<StorageIndex>(index));
  }
  created_.clear();
  for (void*& address : blocks_) {
    if (address != nullptr) free_bytes(std::exchange(address, nullptr));
  }
}

void SimulatedJob::execute(const Replay& replay) {
  const uint32_t index = operator_of(*replay.record);
  const TraceOperator& op = trace_.operators[index];
  if (log_ != nullptr) log_->replayed(calls_[index]);
  const Record& record = *replay.record;
  for (size_t k = 0; k < replay.inputs.size(); ++k) {
    wait_for_transfers(replay.inputs[k], record.edges[k].value->bytes);
  }
  if (record.writes()) wait_for_transfers(replay.target, record.outputs[0]->bytes);
  if (trace_.facts.blocks) return replay_with_blocks(op, replay.outputs);
  if (replay.record->writes()) {
    if (op.workspace_bytes > 0) free_bytes(allocate(op.workspace_bytes, ends_[op.name]));
    advance(op.cost_ns);
    return;
  }
  // A replay makes all outputs, and frees those that are not wanted.
  const std::vector<void*> addresses = allocate_outputs(op);
  for (size_t k = 0; k < addresses.size(); ++k) {
    if (addresses[k] == nullptr) continue;
    if (replay.outputs[k] != nullptr) {
      replay.outputs[k] = addresses[k];
    } else {
      free_bytes(addresses[k]);
    }
  }
}

bool SimulatedJob::detach(Storage& storage) {
  auto* mine = static_cast<JobStorage*>(storage.framework_storage);
  if (log_ != nullptr) {
    log_->evicted(static_cast<uint32_t>(mine->index), allocator_.offset(mine->address));
  }
  mine->address = nullptr;
  ++evictions_[number(mine->index)];
  return true;
}

bool SimulatedJob::attach(Storage& storage, void* address) {
  auto* mine = static_cast<JobStorage*>(storage.framework_storage);
  mine->address = address;
  if (log_ != nullptr) {
    log_->restored(static_cast<uint32_t>(mine->index), allocator_.offset(address));
  }
  return true;
}

void SimulatedJob::forget(Storage& storage) {
  static_cast<JobStorage*>(storage.framework_storage)->tracked = nullptr;
}

void SimulatedJob::copy(void*, const void*, size_t bytes) {
  if (log_ != nullptr) log_->copied(bytes);
  counts_.copied_bytes += bytes;
  advance(copy_ns(bytes));
}

uint64_t SimulatedJob::copy_ns(size_t bytes) const { return trace_.facts.copy_ns(bytes); }

// What follows serves traces with blocks: it allocates and frees what the recorded job did.

void SimulatedJob::change_block(const BlockChange& change) {
  if (change.block >= blocks_.size()) blocks_.resize(change.block + 1);
  if (change.bytes > 0) {
    blocks_[change.block] = allocate(change.bytes);
  } else {
    free_bytes(std::exchange(blocks_[change.block], nullptr));
  }
}

uint32_t SimulatedJob::first_block(const TraceOperator& op) const {
  for (const BlockChange& change : trace_.changes(op)) {
    if (change.bytes > 0) return change.block;
  }
  return BlockChange::kNone;
}

bool SimulatedJob::is_made_by(const TraceOperator& op, StorageIndex output) const {
  return !trace_.facts.blocks || trace_.storages[number(output)].block >= first_block(op);
}

void SimulatedJob::add_early_outputs(const TraceOperator& op, OperatorCall& call) {
  for (const StorageIndex output : trace_.outputs(op)) {
    if (is_made_by(op, output)) continue;
    begin(output, std::exchange(blocks_[trace_.storages[number(output)].block], nullptr));
    created_.push_back(static_cast<uint32_t>(output));
    call.add(tracked(output), Access::kOverwrite);
  }
}

std::vector<void*> SimulatedJob::run_changes(const TraceOperator& op, bool replayed) {
  const uint32_t first = first_block(op);
  std::vector<void*> own;
  try {
    for (const BlockChange& change : trace_.changes(op)) {
      if (change.bytes > 0) {
        own.push_back(allocate(change.bytes, ends_[op.name]));
      } else if (change.block >= first) {
        free_bytes(std::exchange(own[change.block - first], nullptr));
      } else if (!replayed) {
        change_block(change);
      }
    }
    advance(op.cost_ns);
  } catch (...) {
    for (void* address : own) {
      if (address != nullptr) free_bytes(address);
    }
    throw;
  }
  return own;
}

std::vector<void*> SimulatedJob::make_outputs(const TraceOperator& op) {
  if (!trace_.facts.blocks) return allocate_outputs(op);
  const std::vector<void*> own = run_changes(op, false);
  const uint32_t first = first_block(op);
  if (!own.empty()) blocks_.resize(std::max<size_t>(blocks_.size(), first + own.size()));
  std::copy(own.begin(), own.end(), blocks_.begin() + (own.empty() ? 0 : first));
  std::vector<void*> addresses;
  for (const StorageIndex output : trace_.outputs(op)) {
    if (!is_made_by(op, output)) continue;
    addresses.push_back(std::exchange(blocks_[trace_.storages[number(output)].block], nullptr));
  }
  return addresses;
}

void SimulatedJob::replay_with_blocks(const TraceOperator& op, std::span<void*> outputs) {
  std::vector<void*> own = run_changes(op, true);
  const uint32_t first = first_block(op);
  size_t k = 0;
  for (const StorageIndex output : trace_.outputs(op)) {
    if (outputs.empty() || !is_made_by(op, output)) continue;
    void*& address = own[trace_.storages[number(output)].block - first];
    void*& wanted = outputs[k++];
    if (wanted != nullptr) {
      wanted = std::exchange(address, nullptr);
    } else {
      free_bytes(std::exchange(address, nullptr));
    }
  }
  for (void* address : own) {
    if (address != nullptr) free_bytes(address);
  }
}

}  // namespace tidepool::remat
