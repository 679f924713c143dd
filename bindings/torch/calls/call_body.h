// CallBody: the part of a record that PyTorch understands: the arguments, full metadata of every
// tensor argument, the numeric state, and the random state if the operator draws. It lies at the
// end of a record's slab, followed by its IValues, slots and dimensions, and holds no tensor and no
// storage alive.
// Not thread safe: written by the thread that runs the operator, before the record is finished.
// Invariant: (1) arguments hold no tensor; (2) slots are in argument order, lists flattened, and
// the k-th slot of kind kEdge belongs to the record's k-th edge.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/core/TensorImpl.h>

#include <cstdint>
#include <span>

#include "bindings/torch/base/devices.h"
#include "bindings/torch/calls/operator_info.h"
#include "bindings/torch/state/numeric_state.h"
#include "bindings/torch/state/random_state.h"

namespace tidepool::torch_glue {

// One tensor argument (or list element) of a recorded call.
struct TensorSlot {
  enum class Kind : uint8_t {
    kAbsent,     // None, undefined, or a written argument that a replay leaves out
    kEdge,       // the next edge of the record
    kBlank,      // memory that the operator overwrites
    kEmpty,      // a storage of no bytes, to which the operator may give memory
    kImmediate,  // a scalar: its bytes are in the slot
    kStandIn,    // what the operator writes beside its results: a replay writes memory of its own,
                 // because type and strides may decide which kernel runs
  };
  static constexpr size_t kImmediateBytes = 64;

  Kind kind = Kind::kAbsent;
  bool wrapped_number = false;
  int8_t scalar_type = 0;
  uint32_t dimensions = 0;
  int64_t offset = 0;
  uint64_t keys = 0;  // dispatch keys that a kernel sees: backend, conj, neg
  bool on_host() const {
    return c10::DispatchKeySet(c10::DispatchKeySet::RAW, keys)
        .has_backend(c10::BackendComponent::CPUBit);
  }
  const int64_t* sizes = nullptr;  // `dimensions` sizes, then as many strides

  // The bytes of immediates are kept apart, because few slots need them.
  const void* immediate = nullptr;
  uint32_t storage_bytes = 0;  // of an immediate
};

class CallBody {
 public:
  // The bytes that a body takes for a call with so many tensor slots, dimensions of all tensors
  // together, and immediates.
  static size_t bytes_for(const OperatorInfo& info, size_t slots, size_t dimensions,
                          size_t immediates);

  // Builds an empty body in `memory`; arguments are None.
  static CallBody& construct(void* memory, const OperatorInfo& info, size_t slots,
                             size_t dimensions);
  static void destroy(void* body);

  // Describes the next tensor argument, whose first element is at `offset` of the edge's storage.
  // Requires: as many calls as slots.
  void add_slot(TensorSlot::Kind kind, const c10::TensorImpl* tensor, int64_t offset);

  // Drops the random state, because the call draws nothing after all.
  void forget_random();

  // Sets argument `index`, which is no tensor.
  void set_argument(size_t index, c10::IValue value) {
    if (value.isPtrType()) heap_bytes_ += heap_bytes_of(value);
    arguments_[index] = std::move(value);
  }
  // The bytes that the arguments keep outside of the record.
  size_t heap_bytes() const { return heap_bytes_; }
  const OperatorInfo& info() const { return *info_; }

  // Pushes the call's arguments on `stack`; tensor_for(slot) makes the tensors.
  template <class TensorFor>
  void push_arguments(torch::jit::Stack& stack, TensorFor&& tensor_for) const;

  NumericState numeric;
  RandomState* random = nullptr;  // lies in the slab; only for an operator that draws

 private:
  CallBody() = default;
  static size_t heap_bytes_of(const c10::IValue& value);

  const OperatorInfo* info_ = nullptr;
  size_t heap_bytes_ = 0;
  uint32_t slot_count_ = 0;
  uint32_t slot_capacity_ = 0;
  c10::IValue* arguments_ = nullptr;
  TensorSlot* slots_ = nullptr;
  int64_t* next_dimension_ = nullptr;
  char* next_immediate_ = nullptr;
};

// The dispatch keys of ordinary dense tensors of the engines' devices, and of CPU tensors, with and
// without autograd. Records cannot hold tensors with other keys, so that these make results roots.
inline uint64_t supported_keys() {
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet kHost({DispatchKey::CPU, DispatchKey::ADInplaceOrView,
                                       DispatchKey::AutogradCPU, DispatchKey::AutocastCPU,
                                       DispatchKey::Conjugate, DispatchKey::Negative});
  constexpr c10::DispatchKeySet kCuda(
      {DispatchKey::CUDA, DispatchKey::AutogradCUDA, DispatchKey::AutocastCUDA});
  return host_is_foreign() ? (kHost | kCuda).raw_repr() : kHost.raw_repr();
}

template <class TensorFor>
void CallBody::push_arguments(torch::jit::Stack& stack, TensorFor&& tensor_for) const {
  size_t slot = 0;
  size_t tensor = 0;
  const auto& tensors = info_->tensors;
  for (size_t k = 0; k < info_->argument_count; ++k) {
    if (tensor == tensors.size() || tensors[tensor].index != k) {
      stack.push_back(arguments_[k]);
      continue;
    }
    const TensorArgument& argument = tensors[tensor++];
    if (argument.kind == TensorArgument::Kind::kTensor) {
      const TensorSlot& described = slots_[slot++];
      if (described.kind == TensorSlot::Kind::kAbsent) {
        stack.push_back(arguments_[k]);
      } else {
        stack.emplace_back(tensor_for(described));
      }
      continue;
    }
    if (arguments_[k].isNone()) {
      stack.emplace_back();
      continue;
    }
    const int64_t length = arguments_[k].toInt();  // lists of tensors only: nested ones are kept
    if (argument.kind == TensorArgument::Kind::kTensorList) {
      c10::List<at::Tensor> list;
      list.reserve(length);
      for (int64_t n = 0; n < length; ++n) {
        const TensorSlot& described = slots_[slot++];
        list.push_back(described.kind == TensorSlot::Kind::kAbsent ? at::Tensor()
                                                                   : tensor_for(described));
      }
      stack.emplace_back(std::move(list));
    } else {
      c10::List<std::optional<at::Tensor>> list;
      list.reserve(length);
      for (int64_t n = 0; n < length; ++n) {
        const TensorSlot& described = slots_[slot++];
        list.push_back(described.kind == TensorSlot::Kind::kAbsent
                           ? std::optional<at::Tensor>()
                           : std::optional<at::Tensor>(tensor_for(described)));
      }
      stack.emplace_back(std::move(list));
    }
  }
}

}  // namespace tidepool::torch_glue
