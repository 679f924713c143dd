#include "tests/support/simulated_framework.h"

#include <algorithm>
#include <cstring>

namespace tidepool::sim {
namespace {

const remat::RecordType kHashing{"sim::hash", nullptr};

thread_local bool t_in_interpreter = false;

}  // namespace

uint64_t OperatorBody::hash(const ConstWords* words) const {
  uint64_t value = mixed(scalar) ^ mixed(draw + 77);
  for (uint32_t k = 0; k < inputs; ++k) value = absorb(value, slices[k].of(words[k]));
  return value;
}

SimulatedFramework::SimulatedFramework(BudgetedAllocator& allocator, DeviceMutex& mutex)
    : allocator_(allocator), mutex_(mutex) {}

void* SimulatedFramework::allocate(size_t bytes) {
  {
    DeviceLock lock(mutex_);
    runtime_->chaos_at_allocation();
  }
  return allocator_.allocate(bytes, PlacementHint::kTransient, stream_);
}

void SimulatedFramework::free_bytes(void* address) { runtime_->free(address); }

SimulatedStorage* SimulatedFramework::new_storage(uint32_t words) {
  void* address = allocate(words * sizeof(uint64_t));
  std::lock_guard guard(storages_mutex_);
  SimulatedStorage& storage = storages_.emplace_back();
  storage.framework = this;
  storage.references = 1;
  storage.expected.resize(words);
  storage.address = address;
  return &storage;
}

SimulatedStorage* SimulatedFramework::new_input(uint32_t words, uint64_t seed) {
  SimulatedStorage* storage = new_storage(words);
  scribble(storage, seed);
  return storage;
}

bool SimulatedFramework::drop_reference_silently(SimulatedStorage* storage) {
  return --storage->references == 0;
}

void SimulatedFramework::drop_reference(SimulatedStorage* storage) {
  if (drop_reference_silently(storage)) report_death(storage);
}

void SimulatedFramework::report_death(SimulatedStorage* storage) {
  if (storage->evicted) {
    runtime_->on_evicted_storage_freed(storage->tracked);
  } else {
    free_bytes(storage->address);
  }
}

void SimulatedFramework::replace_bytes(SimulatedStorage* storage, uint64_t seed) {
  void* fresh = allocate(storage->bytes());
  void* old = nullptr;
  {
    DeviceLock lock(mutex_);
    if (storage->evicted) {
      remat::Storage* all[] = {storage->tracked};
      runtime_->lock_storage(all[0]);
      try {
        runtime_->make_resident(all, lock);
      } catch (...) {
        runtime_->unlock_storage(all[0]);
        allocator_.free_locked(fresh);
        throw;
      }
      runtime_->unlock_storage(all[0]);
    }
    old = std::exchange(storage->address, fresh);
  }
  scribble(storage, seed);
  free_bytes(old);
}

void SimulatedFramework::scribble(SimulatedStorage* storage, uint64_t seed) {
  fill(storage->expected, seed, 0);
  fill(storage->words(), seed, 0);
}

remat::Storage* SimulatedFramework::tracked(SimulatedStorage* storage) {
  if (storage->tracked == nullptr) {
    storage->tracked =
        runtime_->track(storage, storage->address, storage->bytes(), remat::RootReason::kUntracked);
  }
  return storage->tracked;
}

void SimulatedFramework::write(const OperatorBody& body, uint64_t hash, remat::Access access,
                               Words target, size_t count) {
  const Words part = body.target.of(target).first(count);
  if (access == remat::Access::kOverwrite) {
    fill(part, hash, 7);
  } else {
    update(part, hash);
  }
}

void SimulatedFramework::add(remat::OperatorCall& call, const Argument& argument,
                             remat::Access access) {
  if (argument.storage == nullptr) return;
  remat::Storage* const storage = tracked(argument.storage);
  const bool is_piece = access == remat::Access::kOverwrite &&
                        argument.slice.count < argument.storage->expected.size();
  call.add(storage, is_piece ? remat::Access::kUpdate : access);
  if (!remat::OperatorCall::asks_for_bytes(*storage, is_piece)) return;
  const size_t first = argument.slice.first * sizeof(uint64_t);
  const remat::ByteRange bytes{first, first + argument.slice.count * sizeof(uint64_t)};
  call.uses_bytes({{bytes}, 0}, is_piece);
}

std::vector<SimulatedStorage*> SimulatedFramework::run(OperatorBody body,
                                                       const std::vector<Argument>& inputs,
                                                       Argument target, remat::Access access,
                                                       Argument second, uint64_t cost_ns,
                                                       bool supported, bool fail) {
  remat::OperatorCall call(*runtime_);
  call.set_type(kHashing);
  body.inputs = static_cast<uint32_t>(inputs.size());
  body.reads_target = target.storage != nullptr && access == remat::Access::kUpdate;
  for (size_t k = 0; k < inputs.size(); ++k) body.slices[k] = inputs[k].slice;
  body.target = target.slice;
  {
    DeviceLock lock(mutex_);
    add(call, target, access);
    for (const Argument& input : inputs) add(call, input, remat::Access::kRead);
    add(call, second, remat::Access::kUpdate);
    if (!supported) call.refuse(remat::RootReason::kUnsupported);
    if (call.prepare(lock)) {
      new (call.begin_record(kHashing, sizeof(body), body.outputs)->body) OperatorBody(body);
    }
  }
  std::vector<SimulatedStorage*> outputs;
  try {
    void* workspace = nullptr;
    if (body.workspace_words > 0) workspace = allocate(body.workspace_words * sizeof(uint64_t));
    try {
      for (uint32_t k = 0; k < body.outputs; ++k) {
        outputs.push_back(new_storage(body.output_words[k]));
      }
    } catch (...) {
      if (workspace != nullptr) free_bytes(workspace);
      throw;
    }
    if (workspace != nullptr) free_bytes(workspace);
  } catch (...) {
    for (SimulatedStorage* output : outputs) drop_reference(output);
    throw;
  }
  ConstWords real[OperatorBody::kMostInputs];
  ConstWords expected[OperatorBody::kMostInputs];
  for (size_t k = 0; k < inputs.size(); ++k) {
    real[k] = inputs[k].storage->words();
    expected[k] = inputs[k].storage->expected;
    use(inputs[k].storage->address, inputs[k].storage->bytes());
  }
  for (const Argument& each : {target, second}) {
    if (each.storage != nullptr) use(each.storage->address, each.storage->bytes());
  }
  for (SimulatedStorage* output : outputs) use(output->address, output->bytes());
  const uint64_t real_hash = body.hash(real);
  const uint64_t expected_hash = body.hash(expected);
  for (uint32_t k = 0; k < body.outputs; ++k) {
    fill(outputs[k]->words(), real_hash, k);
    fill(outputs[k]->expected, expected_hash, k);
  }
  for (const Argument& each : {target, second}) {
    if (each.storage == nullptr) continue;
    OperatorBody part = body;
    part.target = each.slice;
    const size_t count = fail ? each.slice.count / 2 : each.slice.count;
    write(part, real_hash, access, each.storage->words(), count);
    write(part, expected_hash, access, each.storage->expected, count);
  }
  if (fail) throw SimulatedFault("the operator failed midway");
  DeviceLock lock(mutex_);
  absl::InlinedVector<remat::Storage*, 2> fresh;
  for (SimulatedStorage* output : outputs) fresh.push_back(tracked(output));
  call.finish(lock, {fresh.data(), fresh.size()}, cost_ns);
  return outputs;
}

bool SimulatedFramework::read_matches(SimulatedStorage* storage) {
  DeviceLock lock(mutex_);
  if (storage->tracked == nullptr || !storage->evicted) {
    return std::ranges::equal(storage->words(), storage->expected);
  }
  remat::Storage* all[] = {storage->tracked};
  runtime_->lock_storage(all[0]);
  try {
    runtime_->make_resident(all, lock);
  } catch (...) {
    runtime_->unlock_storage(all[0]);
    throw;
  }
  const bool same = std::ranges::equal(storage->words(), storage->expected);
  runtime_->unlock_storage(all[0]);
  return same;
}

void SimulatedFramework::execute(const remat::Replay& replay) {
  if (++executed_ == fail_at_) throw SimulatedFault("the replay failed");
  const remat::Record& record = *replay.record;
  const OperatorBody& body = *static_cast<const OperatorBody*>(record.body);
  if (body.workspace_words > 0) free_bytes(allocate(body.workspace_words * sizeof(uint64_t)));
  ConstWords words[OperatorBody::kMostInputs];
  const bool updates = record.written_edge != remat::Record::kNoEdge;
  const size_t first = updates ? 1 : 0;
  for (size_t k = 0; k < body.inputs; ++k) {
    const remat::Value& value = *record.edges[k + first].value;
    words[k] = {static_cast<const uint64_t*>(replay.inputs[k + first]),
                value.bytes / sizeof(uint64_t)};
    use(replay.inputs[k + first], value.bytes);
  }
  const uint64_t hash = body.hash(words);
  if (record.writes()) {
    const size_t bytes = updates ? record.edges[0].value->bytes : record.overwritten_bytes;
    use(replay.target, bytes);
    write(body, hash, body.reads_target ? remat::Access::kUpdate : remat::Access::kOverwrite,
          {static_cast<uint64_t*>(replay.target), bytes / sizeof(uint64_t)}, body.target.count);
    return;
  }
  // A real operator computes all its outputs, and frees those that nobody keeps.
  std::vector<void*> made;
  try {
    for (uint32_t k = 0; k < body.outputs; ++k) {
      made.push_back(allocate(body.output_words[k] * sizeof(uint64_t)));
    }
  } catch (...) {
    for (void* address : made) free_bytes(address);
    throw;
  }
  for (uint32_t k = 0; k < body.outputs; ++k) {
    use(made[k], body.output_words[k] * sizeof(uint64_t));
    fill({static_cast<uint64_t*>(made[k]), body.output_words[k]}, hash, k);
    if (replay.outputs[k] != nullptr) {
      replay.outputs[k] = made[k];
    } else {
      free_bytes(made[k]);
    }
  }
}

bool SimulatedFramework::take_reference_if_alive(SimulatedStorage* storage) {
  uint32_t count = storage->references.load();
  while (count > 0) {
    if (storage->references.compare_exchange_weak(count, count + 1)) return true;
  }
  return false;
}

bool SimulatedFramework::detach(remat::Storage& storage) {
  auto* own = static_cast<SimulatedStorage*>(storage.framework_storage);
  if (own->address != storage.address) return false;  // it has got other bytes
  if (!take_reference_if_alive(own)) return false;
  own->address = nullptr;
  own->evicted = true;
  // The last reference may be this one by then: the storage then dies as an evicted one.
  mutex_.drop_later(own, [](void* object) {
    auto* held = static_cast<SimulatedStorage*>(object);
    held->framework->drop_reference(held);
  });
  return true;
}

bool SimulatedFramework::attach(remat::Storage& storage, void* address) {
  auto* own = static_cast<SimulatedStorage*>(storage.framework_storage);
  if (!take_reference_if_alive(own)) return false;
  own->address = address;
  own->evicted = false;
  mutex_.drop_later(own, [](void* object) {
    auto* held = static_cast<SimulatedStorage*>(object);
    held->framework->drop_reference(held);
  });
  return true;
}

void SimulatedFramework::forget(remat::Storage& storage) {
  static_cast<SimulatedStorage*>(storage.framework_storage)->tracked = nullptr;
}

void SimulatedFramework::enter_interpreter() {
  interpreter_.lock();
  t_in_interpreter = true;
}

void SimulatedFramework::leave_interpreter() {
  t_in_interpreter = false;
  interpreter_.unlock();
}

void* SimulatedFramework::begin_wait() {
  if (!t_in_interpreter) return nullptr;
  leave_interpreter();
  return this;
}

void SimulatedFramework::end_wait(void* token) {
  if (token != nullptr) enter_interpreter();
}

void SimulatedFramework::copy(void* to, const void* from, size_t bytes) {
  use(from, bytes);
  use(to, bytes);
  std::memcpy(to, from, bytes);
}

}  // namespace tidepool::sim
