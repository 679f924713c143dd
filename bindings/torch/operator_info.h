// OperatorInfo: what is known of one operator from its schema and from our tables: which arguments
// are tensors, which it writes, whether it draws, and how interception treats it.
// Immutable after construction, never freed; OperatorTable finds it by the operator's handle.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <string>

#include "remat/lineage.h"

namespace tidepool::torch_glue {

struct TensorArgument {
  enum class Kind : uint8_t { kTensor, kTensorList, kOptionalTensorList };
  uint16_t index = 0;
  Kind kind = Kind::kTensor;
  bool writes = false;       // by its schema
  bool side_writes = false;  // hidden by its schema: running statistics
};

// On which switches it depends that an operator gives the same bits each time on a CUDA device.
enum class Variation : uint8_t {
  kNone,         // it always does
  kAlgorithms,   // with deterministic algorithms on
  kConvolution,  // likewise, or with cuDNN's deterministic ones
  kTransposed,   // likewise, and where the operator's switch is off
};
// By the present switches. See bindings/torch/varying_operators.h.
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
  bool is_metadata = false;    // views, `empty`: never looks at bytes; bypasses us
  bool writes = false;         // any writing argument
  bool overwrites = false;     // writes all of its one written argument and never reads it
  bool replayable = true;      // false: arguments or effects that a replay cannot reproduce
  bool returns_list = false;
  bool returns_tensor = false;
  bool is_trusted = true;      // its schema is known to tell the truth (or our tables correct it)
  Variation varies = Variation::kNone;
  bool keeps_operands = false;  // goes on using its arguments' memory after it has returned

  explicit OperatorInfo(const c10::OperatorHandle& op);

 private:
  void read_arguments(const c10::FunctionSchema& schema);
  void read_returns(const c10::FunctionSchema& schema);
  void apply_tables(const c10::FunctionSchema& schema);
};

// The info of `op`, made on first sight. Thread safe; a hit costs no lock.
const OperatorInfo& info_of(const c10::OperatorHandle& op);

// `op` is going away; another one may come to have its handle. Thread safe.
void forget_operator(const c10::OperatorHandle& op);

}  // namespace tidepool::torch_glue
