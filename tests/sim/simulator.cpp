#include "tests/sim/simulator.h"

#include <algorithm>

#include "fmt/format.h"
#include "tests/support/memory_tier.h"

namespace tidepool::sim {
namespace {

constexpr size_t kPageBytes = 4096;

AllocatorConfig allocator_config(const Program& program, RoomStrategy* strategy) {
  AllocatorConfig config;
  config.budget_bytes = program.budget_bytes;
  config.page_bytes = kPageBytes;
  config.poison = true;
  config.allow_windows = program.allow_windows;
  config.allow_remap = program.allow_remap;
  config.allow_moves = program.allow_moves && strategy == nullptr;
  config.strategy = strategy;
  return config;
}

remat::RuntimeConfig runtime_config(const Program& program) {
  remat::RuntimeConfig config;
  config.policy = program.policy;
  config.chaos = program.chaos;
  config.seed = program.seed;
  config.limits = program.limits;
  return config;
}

std::unique_ptr<remat::Tier> make_tier(const Program& program) {
  if (program.tier_bytes == 0) return nullptr;
  MemoryTier::Settings settings;
  settings.capacity = program.tier_bytes;
  settings.ns_per_byte = program.tier_ns_per_byte;
  settings.refuse_every = program.tier_refuses_every;
  settings.compares = program.seed % 2 == 0;
  return std::make_unique<MemoryTier>(settings);
}

}  // namespace

Simulator::Simulator(const Program& program)
    : program_(program),
      space_(kPageBytes),
      strategy_({.evict_singly = true}),
      allocator_(space_, mutex_,
                 allocator_config(program, program.evict_singly ? &strategy_ : nullptr)),
      framework_(allocator_, mutex_),
      runtime_(std::make_unique<remat::Runtime>(allocator_, framework_, runtime_config(program),
                                                make_tier(program))) {
  framework_.set_runtime(runtime_.get());
  framework_.fail_execute_at(program.fail_execute_at);
}

Simulator::~Simulator() = default;

void Simulator::fail(const std::string& what) {
  if (outcome_.failure.empty()) outcome_.failure = fmt::format("step {}: {}", now_, what);
}

template <typename Action>
bool Simulator::attempt(Action&& action) {
  try {
    action();
    return true;
  } catch (const OutOfMemory& error) {
    ++outcome_.out_of_memory;
    const bool fits = error.report().lower_bound_budget_bytes <= program_.budget_bytes;
    outcome_.out_of_memory_below_bound += fits;
  } catch (const remat::RestorationError& error) {
    // In a job of one thread nothing can be lost, and shortage has an error of its own.
    fail(std::string("gave up: ") + error.what());
  } catch (const SimulatedFault&) {
    ++outcome_.faults;
  }
  return false;
}

size_t Simulator::pick(uint32_t operand) const {
  const size_t count = handles_.size();
  // Every other operand is among the last few.
  if ((operand >> 20) % 2 == 0) return count - 1 - operand % std::min<size_t>(count, 4);
  return operand % count;
}

Argument Simulator::argument(uint32_t operand) const {
  const Handle& handle = handles_[pick(operand)];
  return {handle.storage, handle.slice};
}

std::vector<Argument> Simulator::arguments(const Operation& operation, size_t most) const {
  std::vector<Argument> inputs;
  const size_t count = operation.scalar % (most + 1);
  const uint32_t operands[] = {operation.a, operation.b, operation.c};
  for (size_t k = 0; k < count; ++k) inputs.push_back(argument(operands[k]));
  return inputs;
}

void Simulator::add_outputs(const std::vector<SimulatedStorage*>& outputs) {
  for (SimulatedStorage* output : outputs) {
    const auto words = static_cast<uint32_t>(output->expected.size());
    handles_.push_back({output, {0, words}});
  }
}

void Simulator::compute(const Operation& operation) {
  OperatorBody body;
  body.scalar = operation.scalar;
  body.draw = operation.kind == Kind::kDraw ? ++draws_ : 0;
  body.outputs = 1 + (operation.scalar >> 8) % 4 / 3;
  body.output_words[0] = operation.words;
  body.output_words[1] = 8 + operation.words / 4;
  body.workspace_words = (operation.scalar >> 16) % 4 == 0 ? operation.words / 2 : 0;
  std::vector<Argument> inputs = arguments(operation, 3);
  if (inputs.empty() && operation.kind != Kind::kDraw) inputs.push_back(argument(operation.a));
  Argument target;
  if (operation.kind == Kind::kSideWrite) target = argument(operation.c);
  add_outputs(framework_.run(body, inputs, target, remat::Access::kSideWrite, {}, operation.cost_ns,
                             operation.kind != Kind::kUnsupported, false));
}

void Simulator::write(const Operation& operation) {
  OperatorBody body;
  body.scalar = operation.scalar;
  std::vector<Argument> inputs = arguments(operation, 2);
  Argument target = argument(operation.c);
  Argument second;
  auto access = remat::Access::kUpdate;
  if (operation.kind == Kind::kOverwrite) {
    std::erase_if(inputs, [&](const Argument& each) { return each.storage == target.storage; });
    target.slice = {0, static_cast<uint32_t>(target.storage->expected.size())};
    access = remat::Access::kOverwrite;
    if (operation.scalar % 3 == 0) body.draw = ++draws_;
  }
  if (operation.kind == Kind::kPiece) {
    const uint32_t quarter = target.slice.count / 4;
    const uint32_t which = operation.scalar % 5;
    if (which < 4) {
      const uint32_t first = target.slice.first + which * quarter;
      const uint32_t end = target.slice.first + target.slice.count;
      target.slice = {first, which < 3 ? quarter : end - first};
    }
    access = remat::Access::kOverwrite;
  }
  if (operation.kind == Kind::kListWrite) {
    second = argument(operation.b ^ 1);
    if (second.storage == target.storage) second = {};
  }
  framework_.run(body, inputs, target, access, second, operation.cost_ns, true,
                 operation.kind == Kind::kFailingUpdate);
}

void Simulator::raw_write(const Handle& handle, uint64_t scalar) {
  SimulatedStorage* storage = handle.storage;
  DeviceLock lock(mutex_);
  remat::Storage* tracked = framework_.tracked(storage);
  if (!tracked->escaped) {
    runtime_->lock_storage(tracked);
    try {
      runtime_->make_resident({&tracked, 1}, lock);
      runtime_->cut(tracked, remat::RootReason::kRawWrite, lock);
    } catch (...) {
      runtime_->unlock_storage(tracked);
      throw;
    }
    runtime_->unlock_storage(tracked);
  }
  fill(handle.slice.of(storage->words()), scalar, 3);
  fill(handle.slice.of(Words(storage->expected)), scalar, 3);
}

void Simulator::escape(const Handle& handle) {
  DeviceLock lock(mutex_);
  runtime_->escape(framework_.tracked(handle.storage), lock);
}

void Simulator::begin_collective(const Handle& handle, const Operation& operation) {
  DeviceLock lock(mutex_);
  remat::Storage* tracked = framework_.tracked(handle.storage);
  runtime_->escape_for_a_while(tracked, lock);
  framework_.take_reference(handle.storage);
  collectives_.push_back({handle, tracked, now_ + 1 + operation.b % 8, operation.scalar});
}

void Simulator::end_collectives(size_t now) {
  for (size_t k = 0; k < collectives_.size();) {
    if (collectives_[k].due > now) {
      ++k;
      continue;
    }
    const Collective done = collectives_[k];
    collectives_.erase(collectives_.begin() + static_cast<std::ptrdiff_t>(k));
    SimulatedStorage* storage = done.handle.storage;
    {
      DeviceLock lock(mutex_);
      if (done.tracked != nullptr && storage->evicted) {
        fail("a storage that a collective uses was evicted");
      } else if (done.tracked != nullptr) {
        fill(done.handle.slice.of(storage->words()), done.scalar, 3);
        fill(done.handle.slice.of(Words(storage->expected)), done.scalar, 3);
        runtime_->leave_alone(done.tracked);
      }
    }
    framework_.drop_reference(storage);
  }
}

void Simulator::drop(size_t at, bool late) {
  SimulatedStorage* storage = handles_[at].storage;
  handles_.erase(handles_.begin() + static_cast<std::ptrdiff_t>(at));
  if (!late) {
    framework_.drop_reference(storage);
  } else if (framework_.drop_reference_silently(storage)) {
    late_.push_back({storage, now_ + 4});
  }
}

void Simulator::report_deaths(size_t now) {
  for (size_t k = 0; k < late_.size();) {
    if (late_[k].due > now) {
      ++k;
      continue;
    }
    SimulatedStorage* storage = late_[k].storage;
    late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(k));
    framework_.report_death(storage);
  }
}

void Simulator::read(const Handle& handle) {
  if (!framework_.read_matches(handle.storage)) fail("a storage has other contents");
}

bool Simulator::step_on_operators(const Operation& operation) {
  switch (operation.kind) {
    case Kind::kPure:
    case Kind::kDraw:
    case Kind::kSideWrite:
    case Kind::kUnsupported:
      compute(operation);
      return true;
    case Kind::kUpdate:
    case Kind::kOverwrite:
    case Kind::kPiece:
    case Kind::kListWrite:
    case Kind::kFailingUpdate:
      write(operation);
      return true;
    default:
      return false;
  }
}

void Simulator::step_from_outside(const Operation& operation) {
  const size_t at = pick(operation.a);
  switch (operation.kind) {
    case Kind::kView: {
      const uint32_t words = static_cast<uint32_t>(handles_[at].storage->expected.size());
      const uint32_t first = operation.b % words;
      handles_.push_back({handles_[at].storage, {first, 1 + operation.c % (words - first)}});
      framework_.take_reference(handles_[at].storage);
      break;
    }
    case Kind::kDrop:
      drop(at, false);
      break;
    case Kind::kDropLate:
      drop(at, true);
      break;
    case Kind::kRead:
      read(handles_[at]);
      break;
    case Kind::kRawWrite:
      raw_write(handles_[at], operation.scalar);
      break;
    case Kind::kEscape:
      escape(handles_[at]);
      break;
    case Kind::kCollective:
      begin_collective(handles_[at], operation);
      break;
    case Kind::kReplace:
      framework_.replace_bytes(handles_[at].storage, operation.scalar);
      for (Collective& each : collectives_) {
        if (each.handle.storage == handles_[at].storage) each.tracked = nullptr;
      }
      break;
    default:
      step_on_runtime(operation);
      break;
  }
}

void Simulator::step_on_runtime(const Operation& operation) {
  switch (operation.kind) {
    case Kind::kEvict: {
      DeviceLock lock(mutex_);
      runtime_->evict_storage(framework_.tracked(handles_[pick(operation.a)].storage));
      break;
    }
    case Kind::kEvictAll: {
      DeviceLock lock(mutex_);
      runtime_->evict_everything();
      break;
    }
    case Kind::kEndStep:
      runtime_->end_step();
      break;
    case Kind::kRecordingOff:
      runtime_->set_recording(false);
      break;
    case Kind::kRecordingOn:
      runtime_->set_recording(true);
      break;
    case Kind::kFork:
      if (forked_) break;
      forked_ = true;
      evictions_at_fork_ = runtime_->statistics().evictions;
      allocator_.become_forked_child();
      runtime_->become_forked_child();
      break;
    default:
      break;
  }
}

void Simulator::step(const Operation& operation) {
  if (operation.kind == Kind::kInput || handles_.empty()) {
    add_outputs({framework_.new_input(operation.words, operation.scalar)});
  } else if (!step_on_operators(operation)) {
    step_from_outside(operation);
  }
}

void Simulator::check() {
  runtime_->check_invariants();
  allocator_.check_invariants();
}

// Reads everything that is left; what does not fit is tried again when the rest has gone.
void Simulator::finish() {
  report_deaths(SIZE_MAX);
  end_collectives(SIZE_MAX);
  for (int round = 0; round < 2; ++round) {
    for (size_t k = 0; k < handles_.size();) {
      if (attempt([&] { read(handles_[k]); })) {
        drop(k, false);
      } else {
        ++k;
      }
    }
  }
  while (!handles_.empty()) drop(0, false);
  check();
  outcome_.runtime = runtime_->statistics();
  outcome_.allocator = allocator_.statistics();
  const remat::RuntimeStatistics& left = outcome_.runtime;
  if (left.values + left.records + left.storages > 0 || outcome_.allocator.allocated_bytes > 0) {
    fail(fmt::format("left over: {} values, {} records, {} storages, {} bytes", left.values,
                     left.records, left.storages, outcome_.allocator.allocated_bytes));
  }
  if (!forked_ && outcome_.allocator.reserved_peak_bytes > program_.budget_bytes) {
    fail(fmt::format("{} bytes committed", outcome_.allocator.reserved_peak_bytes));
  }
  if (forked_ && left.evictions != evictions_at_fork_) fail("a forked child evicted");
}

Outcome Simulator::run() {
  for (now_ = 0; now_ < program_.operations.size(); ++now_) {
    report_deaths(now_);
    end_collectives(now_);
    attempt([&] { step(program_.operations[now_]); });
    if (program_.check_each_step) check();
    if (!outcome_.failure.empty()) break;
    ++outcome_.operations;
  }
  finish();
  return outcome_;
}

}  // namespace tidepool::sim
