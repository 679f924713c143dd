#include "bindings/torch/intercept/boxed_call.h"

namespace tidepool::torch_glue {
namespace {

// Visits the tensors in a value, in order, as deep as its type goes.
template <class Visit>
void visit_nested(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    visit(value.unsafeToTensorImpl());
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) visit_nested(element, visit);
  } else if (value.isTuple()) {
    for (const c10::IValue& element : value.toTupleRef().elements()) visit_nested(element, visit);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) visit_nested(entry.value(), visit);
  }
}

template <class Visit>
void visit_tensor_arguments(const OperatorInfo& info, const torch::jit::Stack& stack,
                            Visit&& visit) {
  const size_t base = stack.size() - info.argument_count;
  for (const TensorArgument& argument : info.tensors) {
    const c10::IValue& value = stack[base + argument.index];
    if (argument.kind == TensorArgument::Kind::kTensor) {
      visit(value.isTensor() ? value.unsafeToTensorImpl() : nullptr, argument);
    } else if (argument.kind == TensorArgument::Kind::kNested) {
      visit_nested(value, [&](c10::TensorImpl* tensor) { visit(tensor, argument); });
    } else if (!value.isNone()) {
      for (const c10::IValue& element : value.toListRef()) {
        visit(element.isTensor() ? element.unsafeToTensorImpl() : nullptr, argument);
      }
    }
  }
}

// Makes a value that no caller can change any more; TorchScript passes its lists themselves.
c10::IValue copied(const c10::IValue& value) {
  return value.isList() ? c10::IValue(value.toList().copy()) : value;
}

// Copies an argument that is no tensor; of a list of tensors it keeps the length.
void copy_arguments(const OperatorInfo& info, const torch::jit::Stack& stack, CallBody& body) {
  const size_t base = stack.size() - info.argument_count;
  size_t tensor = 0;
  for (size_t k = 0; k < info.argument_count; ++k) {
    const c10::IValue& value = stack[base + k];
    if (static_cast<int>(k) == info.generator_argument) continue;  // a replay has one of its own
    if (tensor == info.tensors.size() || info.tensors[tensor].index != k) {
      body.set_argument(k, copied(value));
      continue;
    }
    const TensorArgument& argument = info.tensors[tensor++];
    if (argument.kind == TensorArgument::Kind::kTensor) {
      const bool absent = !value.isTensor() || !value.toTensor().defined();
      if (absent) body.set_argument(k, value);
    } else if (!value.isNone()) {
      body.set_argument(k, static_cast<int64_t>(value.toListRef().size()));
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
  if (info.length_argument >= 0) {
    call.expect_outputs(static_cast<size_t>(argument(info.length_argument).toInt()));
  }
  if (info.draw_argument >= 0 && argument(info.draw_argument).isDouble() &&
      argument(info.draw_argument).toDouble() == 0) {
    call.draws_nothing();
  }
  CallBody* body = call.begin(generator.defined() ? &generator : nullptr);
  if (body != nullptr) copy_arguments(info, stack, *body);
  return body;
}

void see_boxed_results(const OperatorInfo& info, const torch::jit::Stack& stack,
                       InterceptedCall& call) {
  for (size_t k = stack.size() - info.return_count; k < stack.size(); ++k) {
    visit_nested(stack[k], [&](c10::TensorImpl* tensor) { call.see_output(tensor); });
  }
}

}  // namespace tidepool::torch_glue
