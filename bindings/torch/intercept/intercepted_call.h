// InterceptedCall: what happens around the kernel of one operator. Tensor arguments are resolved to
// tracked storages, evicted ones are restored, contents about to be written are protected, the call
// is recorded, and its results are tracked. The boxed fallback and the typed wrappers share it, and
// call its functions in this order:
//   see() for each tensor argument; begin(); if that returns a body, set the body's arguments;
//   run the kernel; see_output() for each tensor returned; finish().
// If the kernel throws, the destructor makes written storages roots, and records nothing.
// A call belongs to the engine of its first tensor that has one; an operator without any is not
// recorded. If tensors are on several devices, all of them are restored and locked, and results are
// roots. Lives on the stack of one thread. It takes the device's lock itself.
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
#include "bindings/torch/engine/pending_collectives.h"
#include "bindings/torch/intercept/call_draw.h"
#include "bindings/torch/intercept/operands/call_arguments.h"
#include "bindings/torch/intercept/operands/foreign_operands.h"
#include "bindings/torch/intercept/operands/untrusted_call.h"
#include "bindings/torch/intercept/own_kernels.h"
#include "remat/operator_call.h"

namespace tidepool::torch_glue {

class InterceptedCall {
 public:
  explicit InterceptedCall(const OperatorInfo& info) : info_(info) {}

  // Shows the next tensor argument, in schema order, lists flattened; nullptr or an undefined
  // tensor if it is absent. `switched`: the value of the operator's switch, if it has one.
  void see(c10::TensorImpl* tensor, const TensorArgument& argument, bool switched) {
    switched_ |= switched;
    const bool side_writes = argument.side_writes && (switched || info_.switch_argument < 0);
    seen_.add(tensor, argument.writes, side_writes);
  }

  // Shows a storage that is passed as such, after all tensors.
  void see_storage(const c10::Storage& storage) { seen_.add_storage(storage); }

  // Says how many tensors the operator will return.
  void expect_outputs(size_t count) { expected_outputs_ = count; }

  // Says that the operator could draw random numbers, but does not in this call.
  void draws_nothing() { draw_.draws_nothing(); }

  // Prepares the operands for the kernel. Returns the body of the record, or nullptr if the call is
  // not recorded. `generator`: the one that is passed explicitly, nullptr if none. Throws:
  // c10::OutOfMemoryError, and what a replayed operator throws; the kernel must not run then.
  CallBody* begin(const at::Generator* generator);

  // The generator that the kernel has to draw from; nullptr: the one that it was given.
  const at::Generator* private_generator() const { return draw_.private_generator(); }

  void see_output(c10::TensorImpl* tensor) { outputs_.push_back(tensor); }
  void finish();
  // Says what a collective has returned, after finish().
  void leave_to(const c10::IValue& work) {
    if (engine_ != nullptr) collective_.returned(*engine_, work);
  }

 private:
  using Home = CallArguments::Home;
  using Seen = CallArguments::Argument;
  // A call on another device, for the operands that live there.
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
  void add_operand(Seen& seen);
  void mark_inputs();
  void add_operands(DeviceLock& lock);
  bool may_copy(const Seen& seen) const;
  bool only_stays(const Seen& seen) const;
  void copy_foreign(DeviceLock& lock);
  void verify_foreign();
  // How many bytes the outputs show.
  size_t output_bytes() const {
    size_t bytes = 0;
    for (const c10::TensorImpl* tensor : outputs_) bytes += shown_bytes(tensor);
    return bytes;
  }
  size_t result_bytes() const;
  void distrust_operands(DeviceLock& lock);
  // Adds the operands and makes the record's body; nullptr: nothing is recorded. Takes the lock.
  CallBody* begin_locked();
  CallBody* begin_body();
  remat::Storage* track_output(size_t place);
  void keep_operands(DeviceLock& lock);
  void keep_outputs(std::span<remat::Storage* const> outputs, DeviceLock& lock);
  void keep_components(c10::TensorImpl* tensor, DeviceLock& lock);
  void keep_captured_state(const c10::GeneratorImpl& generator, DeviceLock& lock);

  const OperatorInfo& info_;
  Engine* engine_ = nullptr;  // null: none of the arguments has an engine
  std::optional<remat::OperatorCall> call_;
  std::vector<std::unique_ptr<Elsewhere>> elsewhere_;
  bool switched_ = false;          // the operator's switch is on
  bool spread_ = false;            // the operands are on several devices
  bool fills_ = false;             // it gives memory to an operand without any
  bool trusted_ = true;            // the operator is trusted, and does not run in a region
  bool inside_ = false;            // it runs for another operator, which is not trusted
  OwnKernels own_kernels_before_;  // those that ran before the kernel
  CallBody* body_ = nullptr;       // of the record
  std::optional<UntrustedCall> untrusted_;
  std::optional<UntrustedHostCall> on_host_;  // there is no engine, and the operator is not trusted
  CallArguments seen_;
  absl::InlinedVector<c10::TensorImpl*, 4> outputs_;
  size_t immediates_ = 0;
  size_t expected_outputs_ = 0;  // 0: as many as there are arguments, at most
  bool in_optimizer_ = false;    // t_in_optimizer at the beginning
  bool reads_foreign_ = false;   // its results come from foreign memory, at least in part
  ForeignOperands foreign_;
  bool copies_foreign_ = false;  // copies stand for the foreign operands
  CallDraw draw_{info_};
  CollectiveCall collective_;
  uint64_t kernel_start_ = 0;     // in cycles
  uint64_t failures_before_ = 0;  // out_of_memory_count() before the kernel
  OperatorTimer* timer_ = nullptr;
  OperatorTimer::Call timed_;
};

// Says where the job calls the operator that is about to run on this thread, as
// tidepool_set_place_source() has it.
using PlaceSource = const char* (*)();
extern std::atomic<PlaceSource> g_place_source;

}  // namespace tidepool::torch_glue
