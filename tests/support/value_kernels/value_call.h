// ValueCall: one call of an operator, seen by its value kernel: what it reads, as one hash, and
// what it writes.
// Holds the tensors that are written until it ends. Used by one thread.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/support/value_kernels/contents.h"
#include "tests/support/value_kernels/operator_facts.h"

namespace tidepool::value_kernels {

class ValueCall {
 public:
  // Before the kernel runs, with the arguments on the stack.
  ValueCall(const OperatorFacts& facts, const torch::jit::Stack& stack);

  // After it ran, with the results on the stack: replaces what was to be computed.
  void write_results(const torch::jit::Stack& stack);

  // Of the operator, all that is no tensor, contents and shapes of tensors, and, once results are
  // written, the state of the random numbers if it drew any.
  uint64_t hash() const { return hash_; }

 private:
  struct Written {
    at::Tensor tensor;
    size_t argument;
    uint64_t old_hash = 0;        // 0: blank
    std::optional<Packed> exact;  // what it gets, where that is known
  };
  struct Philox {
    uint64_t seed = 0;
    uint64_t offset = 0;
  };

  void read_argument(size_t index, const c10::IValue& value);
  void read_tensor(size_t index, const at::Tensor& tensor);
  void read_value(const c10::IValue& value);
  void find_random_state(const torch::jit::Stack& stack, size_t base);
  void prepare_copy(const torch::jit::Stack& stack, size_t base);
  void prepare_number(const torch::jit::Stack& stack, size_t base);
  void write_argument(const Written& written, uint64_t seed);
  void write_result(const at::Tensor& tensor, uint64_t seed);
  bool is_argument(const at::Tensor& tensor) const;
  Philox philox() const;

  const OperatorFacts& facts_;
  uint64_t hash_;
  bool trains_ = false;
  std::vector<Written> written_;
  std::vector<const void*> storages_;  // of all arguments
  at::Generator generator_;            // that it may draw from
  Philox before_;
  bool drew_ = false;
  std::optional<c10::Scalar> number_;
};

}  // namespace tidepool::value_kernels
