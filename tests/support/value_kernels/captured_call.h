// CapturedCall: a call of an operator into a graph, whose values are written again, from what the
// operands hold by then, at each launch of the graph.
// Owns no memory of the device: the graph keeps it. Used by one thread at a time.
#pragma once

#include <ATen/core/stack.h>

#include <map>
#include <memory>

#include "tests/support/value_kernels/operator_facts.h"

namespace tidepool::value_kernels {

class CapturedCall {
 public:
  // Whether what the calling thread's current stream is given goes into a graph.
  static bool is_capturing();

  // Before the kernel runs, with the arguments on the stack. Requires: the facts outlive it.
  CapturedCall(const OperatorFacts& facts, const torch::jit::Stack& stack);
  // After it ran, with the results on the stack: the graph has it from now on.
  static void hand_over(std::unique_ptr<CapturedCall> call, const torch::jit::Stack& stack);

 private:
  void write() const;
  c10::IValue borrowed(const c10::IValue& value);
  at::Tensor borrowed(const at::Tensor& tensor);

  const OperatorFacts& facts_;
  std::map<const void*, c10::Storage> storages_;  // by the storage that each stands for
  torch::jit::Stack arguments_;
  torch::jit::Stack results_;
};

}  // namespace tidepool::value_kernels
