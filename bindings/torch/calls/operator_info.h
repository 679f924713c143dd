// OperatorInfo: what is known of one operator from its schema and from our tables: which arguments
// are tensors, which it writes, whether it draws, and how interception treats it.
// Immutable after construction but for distrust(), never freed; OperatorTable finds it by the
// operator's handle.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "remat/lineage/lineage.h"

namespace tidepool::torch_glue {

struct TensorArgument {
  // kNested: tensors in lists of lists, dictionaries or tuples; such a call cannot be recorded.
  enum class Kind : uint8_t { kTensor, kTensorList, kOptionalTensorList, kNested };
  uint16_t index = 0;
  Kind kind = Kind::kTensor;
  bool writes = false;       // by its schema
  bool side_writes = false;  // hidden by its schema: running statistics, a state of its own
};

// The switches under which an operator gives the same bits each time.
enum class Variation : uint8_t {
  kNone,         // under any
  kAlgorithms,   // with deterministic algorithms on
  kConvolution,  // with deterministic algorithms on, all of them or cuDNN's
  kTransposed,   // as kConvolution, or if the operator's own switch is off
};
// Whether results may vary under the present switches; see
// bindings/torch/calls/varying_operators.h.
bool may_vary(Variation variation);

struct OperatorInfo : remat::RecordType {
  std::string qualified_name;  // "aten::add.Tensor"
  c10::OperatorHandle handle;
  uint16_t argument_count = 0;
  uint16_t return_count = 0;
  c10::SmallVector<TensorArgument, 6> tensors;
  int generator_argument = -1;
  int storage_argument = -1;
  int switch_argument = -1;  // side writes, or variation, only if this bool argument is true
  int draw_argument = -1;    // draws only if this number, a dropout's probability, is not zero
  // The operator never looks at bytes itself, and is not intercepted: views, `empty`, and what
  // draws only by calling an operator with a generator, which is seen in its place.
  bool is_metadata = false;
  bool writes = false;      // any writing argument
  bool overwrites = false;  // writes all of its one written argument and never reads it
  bool replayable = true;   // false: arguments or effects that a replay cannot reproduce
  bool returns_list = false;
  bool maps_lists = false;  // works on the elements of its lists one by one
  bool returns_tensor = false;
  bool draws_by_default_only =
      false;  // takes no generator, and a replay has an equivalent that does
  Variation varies = Variation::kNone;
  bool keeps_operands = false;  // goes on using its arguments' memory after it has returned

  explicit OperatorInfo(const c10::OperatorHandle& op);

  // Whether the operator is trusted: its schema, corrected by our tables, tells all that it does, a
  // replay gives the same bits, and the kernel that runs is still the one of which this is known.
  bool is_trusted() const {
    return is_trusted_ && !distrusted_.load(std::memory_order_relaxed) && !is_replaced();
  }
  // Whether the kernel is the job's or a library's. Such a kernel may use tensors that are no
  // arguments, by operators.
  bool is_foreign() const { return (is_foreign_ || is_trusted_) && !is_trusted(); }
  // Ends the trust in the operator for good, because another kernel takes the place of the one
  // there was.
  void distrust() const { distrusted_.store(true, std::memory_order_relaxed); }
  // Runs the kernel that was there when the operator was first seen.
  void call_recorded_kernel(torch::jit::Stack& stack, c10::Device device) const;

 private:
  bool is_replaced() const {
    return kernel_slot_ != nullptr && !kernel_slot_->_equalsBoxedAndUnboxed(kernel_);
  }
  void remember_kernel();
  void read_arguments(const c10::FunctionSchema& schema);
  void read_returns(const c10::FunctionSchema& schema);
  void apply_tables(const c10::FunctionSchema& schema);
  void apply_hidden_writes(const c10::FunctionSchema& schema);
  void read_draws(const c10::FunctionSchema& schema);

  bool is_trusted_ = true;
  bool is_foreign_ = false;  // not of PyTorch's own operators
  mutable std::atomic<bool> distrusted_{false};
  // The dispatcher's entry for tensors of the engines' devices, and what it held at first.
  const c10::KernelFunction* kernel_slot_ = nullptr;
  c10::KernelFunction kernel_;
};

// The info of `op`, made on first sight. Thread safe; a hit costs no lock.
const OperatorInfo& info_of(const c10::OperatorHandle& op);

// Forgets `op`, which is going away; another operator may get its handle. Thread safe.
void forget_operator(const c10::OperatorHandle& op);

}  // namespace tidepool::torch_glue
