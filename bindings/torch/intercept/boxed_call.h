// Boxed calls: the interception of an operator whose arguments are on a stack, as the boxed
// fallback and the kernels of other layouts share it.
#pragma once

#include <ATen/core/stack.h>

#include <utility>

#include "bindings/torch/calls/operator_info.h"
#include "bindings/torch/engine/engine.h"
#include "bindings/torch/intercept/intercepted_call.h"
#include "bindings/torch/intercept/interception.h"

namespace tidepool::torch_glue {

// Shows every tensor argument on the stack to the call, and the generator if there is one. Returns
// the record's body, with its arguments set; nullptr if the call is not recorded.
CallBody* begin_boxed(const OperatorInfo& info, const torch::jit::Stack& stack,
                      InterceptedCall& call);
void see_boxed_results(const OperatorInfo& info, const torch::jit::Stack& stack,
                       InterceptedCall& call);

// Runs `run`, which replaces the arguments on the stack by the results, as an intercepted call.
template <class Run>
void intercept_boxed(const OperatorInfo& info, torch::jit::Stack* stack, Run&& run) {
  c10::IValue given;  // the generator that is drawn from, which the stack alone may hold
  InterceptedCall call(info);
  begin_boxed(info, *stack, call);
  if (const at::Generator* own = call.private_generator()) [[unlikely]] {
    given = std::exchange((*stack)[stack->size() - info.argument_count + info.generator_argument],
                          c10::IValue(*own));
  }
  std::forward<Run>(run)();
  see_boxed_results(info, *stack, call);
  call.finish();
  if (info.returns_work) [[unlikely]]
    call.leave_to(stack->back());
}

}  // namespace tidepool::torch_glue
