// InterceptedCall: what happens around one operator's kernel: tensor arguments are resolved to
// tracked storages, evicted ones restored, contents about to be written protected, the call
// recorded, its results tracked. Shared by the boxed fallback and the typed wrappers. The order:
//   see() for each tensor argument; begin(); if it returns a body, set its arguments;
//   run the kernel; see_output() for each tensor returned; finish().
// If the kernel throws, the destructor leaves written storages as roots and records nothing.
// The call belongs to the engine of the first tensor that has one; operators without any are not
// our business. With tensors of several devices, all are restored and locked, and results are
// roots.
// Lives on the stack of one thread. The device's lock is taken inside.
#pragma once

#include <c10/core/TensorImpl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "bindings/torch/base/operator_timer.h"
#include "bindings/torch/calls/call_body.h"
#include "bindings/torch/calls/operator_info.h"
#include "bindings/torch/engine/engine.h"
#include "bindings/torch/intercept/call_arguments.h"
#include "bindings/torch/intercept/call_draw.h"
#include "bindings/torch/intercept/foreign_operands.h"
#include "remat/lineage/mutants.h"
#include "remat/operator_call.h"

namespace tidepool::torch_glue {

// Only in the mutants build: tensors of a layout beyond us whose contents are taken for constant.
inline bool is_mutant_constant(const c10::TensorImpl* tensor) {
  return (TIDEPOOL_MUTANT(5, sparse) && tensor->layout() == c10::kSparse) ||
         (TIDEPOOL_MUTANT(5, mkldnn) && tensor->layout() == c10::kMkldnn) ||
         (TIDEPOOL_MUTANT(5, nested) && tensor->key_set().has(c10::DispatchKey::NestedTensorCPU));
}

// While one lives, an operator that nobody vouches for is running: it may have ATen operators work
// for it on other threads, and hold raw pointers to their results.
class UntrustedCall {
 public:
  UntrustedCall() { running_.fetch_add(1, std::memory_order_relaxed); }
  ~UntrustedCall() { running_.fetch_sub(1, std::memory_order_relaxed); }
  UntrustedCall(const UntrustedCall&) = delete;
  UntrustedCall& operator=(const UntrustedCall&) = delete;
  static bool any() { return running_.load(std::memory_order_relaxed) > 0; }

 private:
  static inline std::atomic<int> running_{0};
};

class InterceptedCall {
 public:
  explicit InterceptedCall(const OperatorInfo& info) : info_(info) {}

  // The next tensor argument, in schema order, lists flattened; nullptr or undefined if absent.
  // `switched`: the value of the operator's switch, where it has one.
  void see(c10::TensorImpl* tensor, const TensorArgument& argument, bool switched) {
    switched_ |= switched;
    const bool side_writes = argument.side_writes && (switched || info_.switch_argument < 0);
    seen_.add(tensor, argument.writes, side_writes);
  }

  // A storage passed as such, after all tensors.
  void see_storage(const c10::Storage& storage) { seen_.add_storage(storage); }

  // The operator could draw random numbers, but does not this time.
  void draws_nothing() { draw_.draws_nothing(); }

  // `generator`: the generator passed explicitly, nullptr if none.
  // Throws: c10::OutOfMemoryError, and what a replayed operator throws; nothing has run then.
  CallBody* begin(const at::Generator* generator);

  // The generator that the kernel has to draw from; nullptr: the one that it was given.
  const at::Generator* private_generator() const { return draw_.private_generator(); }

  void see_output(c10::TensorImpl* tensor) { outputs_.push_back(tensor); }
  void finish();

 private:
  using Home = CallArguments::Home;
  using Seen = CallArguments::Argument;
  // The operands that live on another device than the call's.
  struct Elsewhere {
    explicit Elsewhere(Engine& e) : engine(e), call(e.runtime()) {}
    Engine& engine;
    remat::OperatorCall call;  // records nothing
  };
  Engine& engine() const { return *engine_; }
  remat::OperatorCall& call() { return *call_; }
  void choose_engine();
  void resolve(Seen& seen);
  void resolve_foreign(Seen& seen, c10::StorageImpl* storage);
  void hold_elsewhere();
  void prepare_in_capture(DeviceLock& lock);
  remat::Access access_of(const Seen& seen) const;
  void mark_inputs();
  void add_operands(DeviceLock& lock);
  bool may_copy(const Seen& seen) const;
  void copy_foreign(DeviceLock& lock);
  void verify_foreign();
  size_t result_bytes() const;
  void say_inexact() const;
  void distrust_operands(DeviceLock& lock);
  // Adds the operands and makes the record's body; nullptr: nothing is recorded. Takes the lock.
  CallBody* begin_locked();
  CallBody* begin_body();
  remat::Storage* track_output(c10::TensorImpl* tensor);
  void keep_outputs(std::span<remat::Storage* const> outputs, DeviceLock& lock);
  void keep_components(c10::TensorImpl* tensor, DeviceLock& lock);
  void keep_captured_state(const c10::GeneratorImpl& generator, DeviceLock& lock);

  const OperatorInfo& info_;
  Engine* engine_ = nullptr;  // null: none of the arguments is ours
  std::optional<remat::OperatorCall> call_;
  std::vector<std::unique_ptr<Elsewhere>> elsewhere_;
  bool switched_ = false;     // the operator's switch is on
  bool spread_ = false;       // over several devices
  bool trusted_ = true;  // the operator is, and does not run in a compiled region
  bool inside_ = false;  // runs for an operator that nobody vouches for
  uint64_t own_kernels_before_ = 0;  // t_own_kernels
  CallBody* body_ = nullptr;         // of the record
  std::optional<UntrustedCall> untrusted_;
  CallArguments seen_;
  absl::InlinedVector<c10::TensorImpl*, 4> outputs_;
  size_t immediates_ = 0;
  bool in_optimizer_ = false;   // t_in_optimizer at the beginning
  bool reads_foreign_ = false;  // what it returns came from outside, at least in part
  ForeignOperands foreign_;
  bool copies_foreign_ = false;  // copies stand for them
  CallDraw draw_{info_};
  uint64_t kernel_start_ = 0;  // cycles
  uint64_t failures_before_ = 0;  // out_of_memory_count()
  OperatorTimer* timer_ = nullptr;
  OperatorTimer::Call timed_;
};

// Kernels of the job's own, for PyTorch's operators, that ran on this thread: a kernel that calls
// one inside cannot be run again.
extern constinit thread_local uint64_t t_own_kernels;
// The job has put a kernel of its own in the place of one of PyTorch's. It may draw, or wait for
// threads that do, inside of an operator that draws: those are no longer recorded, as the lock of
// the generator would be held meanwhile.
extern std::atomic<bool> g_has_own_kernels;

// While above zero, generated code runs on this thread: it reads the memory of operators' operands
// and results by their addresses, so that these stay where they are.
extern constinit thread_local int t_region_depth;

}  // namespace tidepool::torch_glue
