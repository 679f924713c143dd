#include "tests/support/value_kernels/operator_facts.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "tests/support/value_kernels/mixing.h"

namespace tidepool::value_kernels {
namespace {

using Kind = OperatorFacts::Kind;

struct Special {
  std::string_view name;
  Kind kind;
};
constexpr std::array kSpecials = {
    Special{"aten::copy_", Kind::kCopy},
    Special{"aten::_foreach_copy_", Kind::kCopy},
    Special{"aten::fill_.Scalar", Kind::kFill},
    Special{"aten::fill_.Tensor", Kind::kFill},
    Special{"aten::zero_", Kind::kZero},
    Special{"aten::_foreach_zero_", Kind::kZero},
    Special{"aten::equal", Kind::kEqual},
    Special{"aten::nonzero", Kind::kNonzero},
    Special{"aten::empty.memory_format", Kind::kBlank},
    Special{"aten::empty_strided", Kind::kBlank},
    Special{"aten::record_stream", Kind::kShare},
};

// Operators without an `out` that write every element of their first argument and read none of it.
constexpr std::array kOverwrites = {
    "aten::copy_",
    "aten::_foreach_copy_",
    "aten::fill_.Scalar",
    "aten::fill_.Tensor",
    "aten::zero_",
    "aten::_foreach_zero_",
    "aten::normal_",
    "aten::uniform_",
    "aten::random_",
    "aten::random_.to",
    "aten::random_.from",
    "aten::exponential_",
    "aten::log_normal_",
    "aten::cauchy_",
    "aten::geometric_",
    "aten::bernoulli_.float",
    "aten::bernoulli_.Tensor",
};

struct SideWrites {
  std::string_view name;
  std::string_view training;
};
// They write the arguments `running_mean` and `running_var`.
constexpr std::array kSideWrites = {
    SideWrites{"aten::native_batch_norm", "training"},
    SideWrites{"aten::cudnn_batch_norm", "training"},
    SideWrites{"aten::miopen_batch_norm", "training"},
    SideWrites{"aten::batch_norm_update_stats", ""},
    SideWrites{"aten::batch_norm_gather_stats", ""},
    SideWrites{"aten::batch_norm_gather_stats_with_counts", ""},
};

constexpr std::array kTouchNothingPrefixes = {"aten::set_", "aten::resize", "aten::_resize_output",
                                              "aten::_efficientzerotensor"};
constexpr std::array kTouchNothing = {"aten::is_set_to", "aten::set_data",
                                      "aten::shallow_copy_data_", "aten::is_pinned",
                                      "aten::_local_scalar_dense"};

// Kernels for all devices that launch something themselves.
constexpr std::array kComputeOnAllDevices = {"aten::copy_"};

std::string qualified_name(const c10::FunctionSchema& schema) {
  return schema.overload_name().empty() ? schema.name()
                                        : schema.name() + "." + schema.overload_name();
}

template <class List>
bool contains(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool works_by_element(const c10::FunctionSchema& schema) {
  const std::string_view name = schema.name();
  const bool is_named = name.starts_with("aten::_foreach_") || name.starts_with("aten::_fused_") ||
                        name.starts_with("aten::_amp_foreach_");
  const auto is_list = [](const c10::Argument& argument) {
    return argument.type()->str() == "Tensor[]";
  };
  const auto scalars = schema.argumentIndexWithName("scalars");
  return is_named && is_list(schema.arguments().front()) &&
         !(scalars && schema.arguments()[*scalars].type()->str() == "Tensor") &&
         std::all_of(schema.returns().begin(), schema.returns().end(), is_list);
}

}  // namespace

OperatorFacts::OperatorFacts(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  name = qualified_name(schema);
  name_hash = mixed(0, name);
  returns = schema.returns().size();
  by_element = works_by_element(schema);
  for (const Special& special : kSpecials) {
    if (special.name == name) kind = special.kind;
  }
  for (const c10::Argument& argument : schema.arguments()) {
    ArgumentFacts facts;
    facts.is_written = is_written(argument);
    facts.is_blank = facts.is_written && argument.kwarg_only();
    facts.is_flag = facts.is_written && argument.name() == "found_inf";
    if (argument.type()->str().find("Generator") != std::string::npos) {
      generator_argument = static_cast<int>(arguments.size());
    }
    arguments.push_back(facts);
  }
  if (contains(kOverwrites, name)) arguments[0].is_blank = true;
  for (const SideWrites& side : kSideWrites) {
    if (side.name != name) continue;
    for (const char* written : {"running_mean", "running_var"}) {
      if (const auto index = schema.argumentIndexWithName(written)) {
        arguments[*index].is_side_written = true;
      }
    }
    if (!side.training.empty()) {
      training_argument = schema.argumentIndexWithName(std::string(side.training)).value();
    }
  }
  draws = generator_argument >= 0 || op.hasTag(at::Tag::nondeterministic_seeded);
}

bool touches_no_contents(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string name = qualified_name(schema);
  if (contains(kTouchNothing, name) || op.hasTag(at::Tag::inplace_view)) return true;
  for (std::string_view prefix : kTouchNothingPrefixes) {
    if (std::string_view(name).starts_with(prefix)) return true;
  }
  const auto& arguments = schema.arguments();
  if (std::any_of(arguments.begin(), arguments.end(), is_written)) return false;
  const auto& results = schema.returns();
  return std::any_of(results.begin(), results.end(), [](const c10::Argument& result) {
    return result.alias_info() != nullptr;  // of an argument: a view
  });
}

bool computes_on_cuda(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CUDA) ||
         contains(kComputeOnAllDevices, qualified_name(op.schema()));
}

}  // namespace tidepool::value_kernels
