// OperatorFacts: what a value kernel must know of its operator, from the schema and from tables of
// what schemas do not say. Immutable once made.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tidepool::value_kernels {

struct ArgumentFacts {
  bool is_written = false;
  // The operator overwrites it all: what was in it means nothing.
  bool is_blank = false;
  // Written although the schema does not say so, where the operator trains; its old contents go
  // into the new ones only.
  bool is_side_written = false;
  // Written with a flag that programs branch on: mostly 0.
  bool is_flag = false;
};

struct OperatorFacts {
  enum class Kind : uint8_t {
    kHash,     // outputs are hashes
    kCopy,     // written argument 0 is a true copy of argument 1; lists too
    kFill,     // written argument 0 is filled with argument 1, a number or a tensor with one
    kZero,     // written argument 0 is filled with zeros; lists too
    kEqual,    // returns whether two tensors are equal
    kNonzero,  // returns the places of elements other than zero
    kBlank,    // returns memory that nobody has written
    kShare,    // says that a stream uses a tensor; touches nothing
  };

  explicit OperatorFacts(const c10::OperatorHandle& op);

  std::string name;
  uint64_t name_hash = 0;
  Kind kind = Kind::kHash;
  std::vector<ArgumentFacts> arguments;
  size_t returns = 0;
  int generator_argument = -1;
  int training_argument = -1;  // where there are side writes; -1: it always trains
  bool draws = false;          // may draw random numbers
  bool by_element = false;     // does the same to each element of its lists, and nothing else
};

// True for operators that touch no contents: views, fresh memory, changes of metadata.
bool touches_no_contents(const c10::OperatorHandle& op);

// True if a kernel of its own would run for dense CUDA tensors, which may launch something. What
// is composed of other operators shows itself by these.
bool computes_on_cuda(const c10::OperatorHandle& op);

}  // namespace tidepool::value_kernels
