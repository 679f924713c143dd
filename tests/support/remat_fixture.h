// RematFixture: allocator, runtime and simulated framework on real memory, with short names for
// what a job does; contents are compared with what they would be without eviction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "allocator/base/check.h"
#include "allocator/space/private_host_space.h"
#include "remat/operator_call.h"
#include "tests/support/simulated_framework.h"

namespace tidepool {

inline remat::RuntimeConfig config_of(const char* policy) {
  remat::RuntimeConfig config;
  config.policy = policy;
  return config;
}

class RematFixture {
 public:
  using Tensor = sim::SimulatedStorage*;
  using Tensors = std::vector<Tensor>;

  explicit RematFixture(size_t budget_bytes = 1 << 20, const remat::RuntimeConfig& config = {},
                        RoomStrategy* strategy = nullptr,
                        std::unique_ptr<remat::Tier> tier = nullptr)
      : allocator(space, mutex, allocator_config(budget_bytes, strategy)),
        framework(allocator, mutex),
        runtime(allocator, framework, config, std::move(tier)) {
    framework.set_runtime(&runtime);
  }

  Tensor input(uint32_t words = 64) { return framework.new_input(words, ++seed_); }

  Tensors run(const Tensors& inputs, std::vector<uint32_t> words, uint64_t cost_ns = 100,
              uint64_t draw = 0, bool supported = true, Tensor side_written = nullptr) {
    sim::OperatorBody body;
    body.scalar = ++seed_;
    body.draw = draw;
    body.outputs = static_cast<uint32_t>(words.size());
    for (size_t k = 0; k < words.size(); ++k) body.output_words[k] = words[k];
    return framework.run(body, arguments(inputs), argument(side_written), remat::Access::kSideWrite,
                         {}, cost_ns, supported, false);
  }
  Tensor pure(const Tensors& inputs, uint32_t words = 64, uint64_t cost_ns = 100) {
    return run(inputs, {words}, cost_ns)[0];
  }
  void update(Tensor target, const Tensors& inputs = {}, bool fail = false) {
    write(target, inputs, remat::Access::kUpdate, fail);
  }
  void overwrite(Tensor target, const Tensors& inputs = {}) {
    write(target, inputs, remat::Access::kOverwrite, false);
  }
  // Writes words of a tensor and reads none of it.
  void write_piece(Tensor target, uint32_t first, uint32_t count, const Tensors& inputs = {}) {
    sim::OperatorBody body;
    body.scalar = ++seed_;
    framework.run(body, arguments(inputs), {target, {first, count}}, remat::Access::kOverwrite, {},
                  100, true, false);
  }
  // The result of an operator that reads words of a tensor.
  Tensor read_piece(Tensor from, uint32_t first, uint32_t count) {
    sim::OperatorBody body;
    body.scalar = ++seed_;
    body.outputs = 1;
    body.output_words[0] = 8;
    return framework.run(body, {{from, {first, count}}}, {}, remat::Access::kRead, {}, 100, true,
                         false)[0];
  }
  void drop(Tensor tensor) { framework.drop_reference(tensor); }

  remat::Storage* tracked(Tensor tensor) {
    DeviceLock lock(mutex);
    return framework.tracked(tensor);
  }
  remat::Value& value(Tensor tensor) { return *tracked(tensor)->current; }
  bool is_root(Tensor tensor) { return value(tensor).producer == nullptr; }
  bool evict(Tensor tensor) {
    DeviceLock lock(mutex);
    return runtime.evict_storage(framework.tracked(tensor));
  }
  // Has the contents copied while they stay.
  bool copy_ahead(Tensor tensor) {
    DeviceLock lock(mutex);
    return runtime.call_context().contents.residency.copy_ahead(*framework.tracked(tensor), 1);
  }
  // Why a call that reads `inputs` is not recorded, and its result has no lineage, if `meanwhile`
  // is done while its kernel runs.
  struct Reasons {
    remat::RootReason call, result;
  };
  template <class Meanwhile>
  Reasons reasons_if(const Tensors& inputs, Meanwhile&& meanwhile) {
    const Tensor out = framework.new_input(8, 3);
    remat::OperatorCall call(runtime);
    static const remat::RecordType type{"test::race", nullptr};
    {
      DeviceLock lock(mutex);
      for (const Tensor input : inputs) {
        call.add(framework.tracked(input), remat::Access::kRead);
      }
      TIDEPOOL_CHECK(call.prepare(lock), "the call of %zu inputs is not recorded", inputs.size());
      call.begin_record(type, 0, 1);
    }
    std::forward<Meanwhile>(meanwhile)();
    DeviceLock lock(mutex);
    remat::Storage* const outputs[] = {framework.tracked(out)};
    call.finish(lock, outputs, 1);
    return {call.reason(), outputs[0]->current->reason};
  }
  bool matches(Tensor tensor) { return framework.read_matches(tensor); }
  remat::RuntimeStatistics statistics() { return runtime.statistics(); }
  void check() {
    runtime.check_invariants();
    allocator.check_invariants();
  }

  PrivateHostSpace space{4096};
  DeviceMutex mutex;
  BudgetedAllocator allocator;
  sim::SimulatedFramework framework;
  remat::Runtime runtime;

 private:
  static AllocatorConfig allocator_config(size_t budget_bytes, RoomStrategy* strategy) {
    AllocatorConfig config;
    config.strategy = strategy;
    config.budget_bytes = budget_bytes;
    config.page_bytes = 4096;
    config.poison = true;
    return config;
  }
  static sim::Argument argument(Tensor tensor) {
    if (tensor == nullptr) return {};
    return {tensor, {0, static_cast<uint32_t>(tensor->expected.size())}};
  }
  static std::vector<sim::Argument> arguments(const Tensors& tensors) {
    std::vector<sim::Argument> out;
    for (Tensor tensor : tensors) out.push_back(argument(tensor));
    return out;
  }
  void write(Tensor target, const Tensors& inputs, remat::Access access, bool fail) {
    sim::OperatorBody body;
    body.scalar = ++seed_;
    framework.run(body, arguments(inputs), argument(target), access, {}, 100, true, fail);
  }

  uint64_t seed_ = 0;
};

}  // namespace tidepool
