// The functions of SimulatedJob for traces that have blocks: they allocate and free what the
// recorded job allocated and freed.
#include <algorithm>
#include <utility>

#include "remat/operator_call.h"
#include "remat/simulate/job/simulated_job.h"

namespace tidepool::plan {

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

void SimulatedJob::add_early_outputs(const TraceOperator& op, remat::OperatorCall& call) {
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

}  // namespace tidepool::plan
