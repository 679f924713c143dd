#include "bindings/torch/boxed_call.h"

namespace tidepool::torch_glue {
namespace {

template <class Visit>
void visit_tensor_arguments(const OperatorInfo& info, const torch::jit::Stack& stack,
                            Visit&& visit) {
  const size_t base = stack.size() - info.argument_count;
  for (const TensorArgument& argument : info.tensors) {
    const c10::IValue& value = stack[base + argument.index];
    if (argument.kind == TensorArgument::Kind::kTensor) {
      visit(value.isTensor() ? value.unsafeToTensorImpl() : nullptr, argument);
    } else if (!value.isNone()) {
      for (const c10::IValue& element : value.toListRef()) {
        visit(element.isTensor() ? element.unsafeToTensorImpl() : nullptr, argument);
      }
    }
  }
}

// Copies what is not a tensor; of a list of tensors, its length.
void copy_arguments(const OperatorInfo& info, const torch::jit::Stack& stack, CallBody& body) {
  const size_t base = stack.size() - info.argument_count;
  size_t tensor = 0;
  for (size_t k = 0; k < info.argument_count; ++k) {
    const c10::IValue& value = stack[base + k];
    if (tensor == info.tensors.size() || info.tensors[tensor].index != k) {
      body.argument(k) = value;
      continue;
    }
    const TensorArgument& argument = info.tensors[tensor++];
    if (argument.kind == TensorArgument::Kind::kTensor) {
      const bool absent = !value.isTensor() || !value.toTensor().defined();
      if (absent) body.argument(k) = value;
      if (!absent && is_mutant_constant(value.unsafeToTensorImpl())) {
        body.argument(k) = value;
        new c10::IValue(value);  // for good: records die under the lock
      }
    } else if (!value.isNone()) {
      body.argument(k) = static_cast<int64_t>(value.toListRef().size());
    }
  }
}

}  // namespace

CallBody* begin_boxed(const OperatorInfo& info, const torch::jit::Stack& stack,
                      InterceptedCall& call) {
  const size_t base = stack.size() - info.argument_count;
  const auto argument = [&](int index) -> const c10::IValue& { return stack[base + index]; };
  const bool switched = info.switch_argument >= 0 && argument(info.switch_argument).isBool() &&
                        argument(info.switch_argument).toBool();
  visit_tensor_arguments(info, stack, [&](c10::TensorImpl* tensor, const TensorArgument& which) {
    call.see(tensor, which, switched);
  });
  if (info.storage_argument >= 0 && argument(info.storage_argument).isStorage()) {
    call.see_storage(argument(info.storage_argument).toStorage());
  }
  at::Generator generator;
  if (info.generator_argument >= 0 && argument(info.generator_argument).isGenerator()) {
    generator = argument(info.generator_argument).toGenerator();
  }
  CallBody* body = call.begin(generator.defined() ? &generator : nullptr);
  if (body != nullptr) copy_arguments(info, stack, *body);
  return body;
}

void see_boxed_results(const OperatorInfo& info, const torch::jit::Stack& stack,
                       InterceptedCall& call) {
  for (size_t k = stack.size() - info.return_count; k < stack.size(); ++k) {
    const c10::IValue& value = stack[k];
    if (value.isTensor()) {
      call.see_output(value.unsafeToTensorImpl());
    } else if (value.isTensorList()) {
      for (const c10::IValue& element : value.toListRef()) {
        call.see_output(element.unsafeToTensorImpl());
      }
    }
  }
}

}  // namespace tidepool::torch_glue
