#include "remat/record/event_recorder.h"

#include <utility>

#include "remat/lineage/lineage.h"
#include "remat/runtime.h"

namespace tidepool::remat {
namespace {

const RecordType kCut{"tidepool::cut"};
const RecordType kRequest{"tidepool::request"};

RootKind kind_of(Role role) {
  switch (role) {
    case Role::kParameter:
      return RootKind::kParameter;
    case Role::kOptimizerState:
      return RootKind::kOptimizerState;
    case Role::kInput:
      return RootKind::kInput;
    default:
      return RootKind::kOther;
  }
}

}  // namespace

JobEvent& EventRecorder::add(EventKind kind) {
  if (!in_operator_ && !blocks_.changes().empty()) add_blocks();
  return append(kind);
}

JobEvent& EventRecorder::append(EventKind kind) {
  if (!filling_->events.empty()) before_event();
  JobEvent& event = filling_->events.emplace_back();
  event.kind = kind;
  return event;
}

void EventRecorder::add_blocks() {
  for (const BlockChange& change : blocks_.changes()) {
    append(EventKind::kBlock).changes = 1;
    filling_->changes.push_back(change);
  }
  blocks_.clear();
}

uint32_t EventRecorder::make(Storage& storage) {
  storage.observer_number = ++storages_;
  return storages_ - 1;
}

uint32_t EventRecorder::number_of(Storage& storage) {
  if (storage.observer_number != 0) {
    tell_role(storage);
    return storage.observer_number - 1;
  }
  JobEvent& root = add(EventKind::kRoot);
  root.bytes = storage.current->bytes;
  root.role = kind_of(storage.role);
  storage.observed_role = storage.role;
  if (has_blocks_) root.block = blocks_.give(storage.address);
  return make(storage);
}

void EventRecorder::make_output(Storage& storage) {
  make(storage);
  storage.observed_role = Role::kOther;
  filling_->output_bytes.push_back(storage.current->bytes);
  if (has_blocks_) filling_->output_blocks.push_back(blocks_.give(storage.address));
}

void EventRecorder::tell_role(Storage& storage) {
  if (storage.observed_role == storage.role) [[likely]]
    return;
  if (kind_of(storage.observed_role) == kind_of(storage.role)) return;
  storage.observed_role = storage.role;
  JobEvent& event = add(EventKind::kRole);
  event.storage = storage.observer_number - 1;
  event.role = kind_of(storage.role);
}

void EventRecorder::begins() {
  if (!recording_) return;
  meter_.begin();
  if (!has_blocks_) return;
  add_blocks();
  in_operator_ = true;
}

void EventRecorder::ran(const ObservedCall& call) {
  const size_t workspace_bytes = meter_.end();
  if (!recording_) return;
  for (const Operand& operand : call.operands) {
    // Contents that an operator makes in memory which nobody has seen: a result.
    const bool fresh = operand.access == Access::kOverwrite;
    if (operand.storage->dead) continue;
    if (!fresh || operand.storage->observer_number != 0) number_of(*operand.storage);
  }
  JobEvent event;
  event.kind = EventKind::kOperator;
  event.type = &call.type;
  event.draws = call.type.draws;
  event.recordable = call.recordable;
  event.cost_ns = call.cost_ns;
  event.place = call.place;
  event.stream = static_cast<uint32_t>(call.stream);
  event.bytes = workspace_bytes;
  event.site = ++calls_[&call.type];
  if (std::exchange(in_operator_, false)) {
    event.changes = static_cast<uint32_t>(blocks_.changes().size());
  } else {
    add_blocks();
  }
  JobEvent& added = append(EventKind::kOperator);
  const uint32_t first_output = storages_;
  for (const Operand& operand : call.operands) {
    Storage& storage = *operand.storage;
    if (storage.dead || storage.observer_number > first_output) continue;
    if (storage.observer_number == 0) {
      make_output(storage);
      ++event.outputs;
      continue;
    }
    filling_->operands.push_back({storage.observer_number - 1, operand.access});
    ++event.operands;
  }
  for (Storage* output : call.outputs) {
    if (output == nullptr || output->dead) continue;
    make_output(*output);
    ++event.outputs;
  }
  filling_->changes.insert(filling_->changes.end(), blocks_.changes().begin(),
                           blocks_.changes().end());
  blocks_.clear();
  added = event;
  auto tell_role_of_made = [&](Storage& storage) {
    if (!storage.dead && storage.observer_number > first_output) tell_role(storage);
  };
  for (const Operand& operand : call.operands) tell_role_of_made(*operand.storage);
  for (Storage* output : call.outputs) {
    if (output != nullptr) tell_role_of_made(*output);
  }
  made(call);
}

JobEvents EventRecorder::with_request(std::span<const Operand> operands, size_t bytes) {
  for (const Operand& operand : operands) {
    if (!operand.storage->dead) number_of(*operand.storage);
  }
  JobEvents events = *filling_;
  JobEvent request;
  request.kind = EventKind::kOperator;
  request.type = &kRequest;
  request.recordable = false;
  request.bytes = bytes + meter_.running_bytes();
  for (const Operand& operand : operands) {
    if (operand.storage->dead) continue;
    events.operands.push_back({operand.storage->observer_number - 1, Access::kRead});
    ++request.operands;
  }
  events.events.push_back(request);
  return events;
}

void EventRecorder::cut(Storage& storage) {
  if (!recording_ || storage.observer_number == 0) return;
  const Operand written{&storage, Access::kUpdate};
  ran({.type = kCut, .recordable = false, .operands = {&written, 1}});
}

void EventRecorder::died(Storage& storage) {
  if (!recording_ || storage.observer_number == 0) return;
  add(EventKind::kRelease).storage = storage.observer_number - 1;
}

void EventRecorder::used(Storage& storage, StreamId stream) {
  if (!recording_ || storage.observer_number == 0) return;
  JobEvent& event = add(EventKind::kUse);
  event.storage = storage.observer_number - 1;
  event.stream = static_cast<uint32_t>(stream);
}

// Whatever number an earlier recording gave it.
void EventRecorder::lives(Storage& storage) {
  storage.observer_number = 0;
  number_of(storage);
  if (!storage.evicted) resident_bytes_ += storage.current->bytes;
}

}  // namespace tidepool::remat
