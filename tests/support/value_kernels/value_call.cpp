#include "tests/support/value_kernels/value_call.h"

#include <ATen/Context.h>

#include <algorithm>
#include <bit>
#include <string_view>

#include "tests/support/value_kernels/call_log.h"
#include "tests/support/value_kernels/mixing.h"
#include "tests/support/value_kernels/planted_faults.h"

namespace tidepool::value_kernels {
namespace {

using Kind = OperatorFacts::Kind;

// Calls visit for a tensor, or for each one of a list; undefined ones included.
template <class Visit>
void for_each_tensor(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isTensor()) visit(element.toTensor());
    }
  }
}

std::vector<at::Tensor> tensors_of(const c10::IValue& value) {
  std::vector<at::Tensor> found;
  for_each_tensor(value, [&](const at::Tensor& tensor) { found.push_back(tensor); });
  return found;
}

const void* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

c10::Scalar first_number(const at::Tensor& tensor) {
  const Packed packed = convert(read_contents(tensor), tensor.scalar_type(), c10::kDouble);
  return *reinterpret_cast<const double*>(packed.data());
}

}  // namespace

ValueCall::ValueCall(const OperatorFacts& facts, const torch::jit::Stack& stack)
    : facts_(facts), hash_(facts.name_hash) {
  const size_t base = stack.size() - facts.arguments.size();
  trains_ = facts.training_argument < 0 || stack[base + facts.training_argument].toBool();
  for (size_t k = 0; k < facts.arguments.size(); ++k) {
    hash_ = mixed(hash_, k);
    read_argument(k, stack[base + k]);
  }
  if (facts.kind == Kind::kCopy) prepare_copy(stack, base);
  if (facts.kind == Kind::kFill || facts.kind == Kind::kZero) prepare_number(stack, base);
  if (facts.draws) find_random_state(stack, base);
}

void ValueCall::read_argument(size_t index, const c10::IValue& value) {
  const bool is_absent = value.isNone() || (value.isTensor() && !value.toTensor().defined());
  if (is_absent && facts_.arguments[index].is_side_written && trains_) return;
  if (value.isTensor()) {
    read_tensor(index, value.toTensor());
  } else if (value.isList()) {
    hash_ = mixed(hash_, value.toListRef().size());
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isTensor()) {
        read_tensor(index, element.toTensor());
      } else {
        read_value(element);
      }
    }
  } else {
    read_value(value);
  }
}

void ValueCall::read_tensor(size_t index, const at::Tensor& tensor) {
  const ArgumentFacts& argument = facts_.arguments[index];
  const bool side_writes = argument.is_side_written && trains_;
  if (!tensor.defined()) return read_value(c10::IValue());  // one is given for the other
  if (!has_contents(tensor)) {
    call_log().note_untreated(facts_.name);
    return;
  }
  storages_.push_back(storage_of(tensor));
  uint64_t contents = 0;
  if (argument.is_blank) {
    hash_ = mixed(hash_, static_cast<uint64_t>(tensor.scalar_type()));
  } else {
    contents = hash_contents(tensor);
    if (facts_.kind == Kind::kHash) contents = planted_faults().read(tensor, contents);
    if (!side_writes) hash_ = mixed(hash_, contents);
  }
  if (argument.is_written || side_writes) {
    written_.push_back({tensor, index, contents, std::nullopt});
  }
}

void ValueCall::read_value(const c10::IValue& value) {
  if (value.isInt()) {
    hash_ = mixed(mixed(hash_, 2), static_cast<uint64_t>(value.toInt()));
  } else if (value.isDouble()) {
    hash_ = mixed(mixed(hash_, 3), std::bit_cast<uint64_t>(value.toDouble()));
  } else if (value.isBool()) {
    hash_ = mixed(mixed(hash_, 4), value.toBool());
  } else if (value.isString()) {
    hash_ = mixed(hash_, value.toStringRef());
  } else if (value.isComplexDouble()) {
    const auto number = value.toComplexDouble();
    hash_ = mixed(mixed(hash_, std::bit_cast<uint64_t>(number.real())),
                  std::bit_cast<uint64_t>(number.imag()));
  } else if (value.isDevice()) {
    hash_ = mixed(mixed(hash_, static_cast<uint64_t>(value.toDevice().type())),
                  static_cast<uint64_t>(value.toDevice().index() + 1));
  } else if (!value.isNone() && !value.isGenerator() && !value.isStream()) {
    call_log().note_untreated(facts_.name);
  } else {
    hash_ = mixed(hash_, 5);  // a generator counts by its state
  }
}

void ValueCall::find_random_state(const torch::jit::Stack& stack, size_t base) {
  if (facts_.generator_argument >= 0 && stack[base + facts_.generator_argument].isGenerator()) {
    generator_ = stack[base + facts_.generator_argument].toGenerator();
  } else {
    for (size_t k = base; k < stack.size() && !generator_.defined(); ++k) {
      for_each_tensor(stack[k], [&](const at::Tensor& tensor) {
        if (!tensor.defined() || !tensor.is_cuda()) return;
        generator_ = at::globalContext().defaultGenerator(tensor.device());
      });
    }
  }
  if (!generator_.defined()) return;
  try {
    before_ = philox();
  } catch (const c10::Error& error) {
    // While a graph is captured nobody may ask: such results do not depend on what is drawn.
    if (std::string_view(error.what()).find("capture") == std::string_view::npos) throw;
    generator_ = {};
  }
}

ValueCall::Philox ValueCall::philox() const {
  return {generator_.current_seed(), generator_.get_offset()};
}

void ValueCall::prepare_copy(const torch::jit::Stack& stack, size_t base) {
  const std::vector<at::Tensor> sources = tensors_of(stack[base + 1]);
  TORCH_CHECK(sources.size() == written_.size(), "value kernels: ", facts_.name, " of ",
              sources.size(), " tensors to ", written_.size());
  for (size_t k = 0; k < sources.size(); ++k) {
    const at::Tensor& to = written_[k].tensor;
    written_[k].exact =
        convert(read_expanded(sources[k], to.sizes()), sources[k].scalar_type(), to.scalar_type());
  }
}

void ValueCall::prepare_number(const torch::jit::Stack& stack, size_t base) {
  if (facts_.kind == Kind::kZero) {
    number_ = 0;
  } else if (stack[base + 1].isTensor()) {
    number_ = first_number(stack[base + 1].toTensor());
  } else {
    number_ = stack[base + 1].toScalar();
  }
}

bool ValueCall::is_argument(const at::Tensor& tensor) const {
  return std::find(storages_.begin(), storages_.end(), storage_of(tensor)) != storages_.end();
}

void ValueCall::write_results(const torch::jit::Stack& stack) {
  drew_ = generator_.defined() && philox().offset != before_.offset;
  if (drew_) hash_ = mixed(mixed(hash_, before_.seed), before_.offset);
  uint64_t seed = mixed(hash_, 6);
  for (const Written& written : written_) write_argument(written, seed = mixed(seed, 1));
  seed = mixed(hash_, 7);  // whether batch norm's statistics are given does not matter
  for (size_t k = stack.size() - facts_.returns; k < stack.size(); ++k) {
    for_each_tensor(stack[k],
                    [&](const at::Tensor& tensor) { write_result(tensor, seed = mixed(seed, 1)); });
  }
}

void ValueCall::write_argument(const Written& written, uint64_t seed) {
  const at::Tensor& tensor = written.tensor;
  const ArgumentFacts& argument = facts_.arguments[written.argument];
  if (argument.is_blank) {
    if (written.exact) return write_contents(tensor, *written.exact);
    if (number_) return write_number(tensor, *number_);
    return write_hashed(tensor, seed);
  }
  if (planted_faults().loses_write(tensor, written.old_hash)) return;
  if (argument.is_flag) return write_rare_flag(tensor, seed);
  write_hashed(tensor, argument.is_side_written ? mixed(seed, written.old_hash) : seed);
}

// Results on the CPU are made by host code, which is the real one. But the random state that
// attention hands to its backward is blank memory where it has drawn nothing.
void ValueCall::write_result(const at::Tensor& tensor, uint64_t seed) {
  if (!tensor.defined()) return;
  if (!has_contents(tensor)) return call_log().note_untreated(facts_.name);
  if (!tensor.is_cuda()) {
    if (facts_.draws && !drew_) write_number(tensor, 0);
    return;
  }
  if (is_argument(tensor)) return;
  write_hashed(tensor, seed);
}

}  // namespace tidepool::value_kernels
