// ValueKernel: stands in for an operator's CUDA kernel. Runs the real one, which on the stand-in
// device checks, allocates, draws its random numbers' offset and computes nothing, and then writes
// what follows from a hash of all that was read.
// Immutable. Thread safe where the real kernel is.
// See README.md beside this file.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "tests/support/value_kernels/operator_facts.h"

namespace tidepool::value_kernels {

class ValueKernel final : public c10::OperatorKernel {
 public:
  ValueKernel(OperatorFacts facts, c10::SafeKernelFunction real)
      : facts_(std::move(facts)), real_(std::move(real)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);

 private:
  void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  // Runs each element of the lists as a call of its own, so that none's values depend on another's.
  void run_by_element(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                      torch::jit::Stack* stack);

  const OperatorFacts facts_;
  const c10::SafeKernelFunction real_;
};

// Lets fresh memory have contents that follow from `seed`, from now on, so that a run in which they
// matter differs from one with another seed. 0: what is in it is left there.
void set_blank_seed(uint64_t seed);

// Puts a ValueKernel in the place of every kernel for dense CUDA tensors, for the life of the
// process. Operators that are defined later are not seen; a second call takes them in. Returns how
// many kernels were replaced.
size_t install_value_kernels();

}  // namespace tidepool::value_kernels
