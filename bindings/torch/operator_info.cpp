#include "bindings/torch/operator_info.h"

#include <array>
#include <atomic>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "bindings/torch/call_body.h"
#include "bindings/torch/varying_operators.h"
#include "remat/mutants.h"

namespace tidepool::torch_glue {
namespace {

// Operators that write every element of their one written argument and read none of it.
constexpr std::array kFullOverwrites = {
    "aten::zero_",          "aten::fill_.Scalar",   "aten::fill_.Tensor",  "aten::normal_",
    "aten::uniform_",       "aten::random_",        "aten::random_.to",    "aten::random_.from",
    "aten::exponential_",   "aten::log_normal_",    "aten::cauchy_",       "aten::geometric_",
    "aten::bernoulli_.float", "aten::bernoulli_.Tensor", "aten::copy_",
};

// Operators that write arguments which their schema says they only read, when `training` is set.
struct HiddenWrite {
  std::string_view name;
  std::array<std::string_view, 2> written;
  std::string_view training;
};
constexpr std::array kHiddenWrites = {
    HiddenWrite{"aten::native_batch_norm", {"running_mean", "running_var"}, "training"},
    HiddenWrite{"aten::cudnn_batch_norm", {"running_mean", "running_var"}, "training"},
    HiddenWrite{"aten::miopen_batch_norm", {"running_mean", "running_var"}, "training"},
};

// Metadata operators that their schema does not show as views.
constexpr std::array kMetadataPrefixes = {"aten::empty", "aten::new_empty",
                                          "aten::_efficientzerotensor"};
constexpr std::array kMetadataNames = {"aten::set_", "aten::shallow_copy_data_"};

// Libraries whose schemas were checked. Anything else may be written in Python, or lie.
constexpr std::array kTrustedPrefixes = {"aten::", "torchvision::"};

// Operators whose effect is not on contents alone: they change the storage itself, or hand out an
// alias that nothing shows. They run, on restored operands, and their results are roots.
constexpr std::array kStorageSurgery = {
    "aten::resize_",      "aten::resize_as_",    "aten::resize_as_sparse_", "aten::resize.out",
    "aten::_lazy_clone",  "aten::_resize_output_", "aten::_pin_memory",     "aten::set_data",
    "aten::resize_output_",
    // These compare the pointers of the old and the new storage.
    "aten::set_.source_Storage", "aten::set_.source_Storage_storage_offset",
    "aten::set_.source_Tensor",  "aten::set_.source_Tensor_storage_offset",
};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

OperatorInfo::OperatorInfo(const c10::OperatorHandle& op) : handle(op) {
  const c10::FunctionSchema& schema = op.schema();
  qualified_name = schema.name();
  if (!schema.overload_name().empty()) qualified_name += "." + schema.overload_name();
  name = qualified_name.c_str();
  destroy_body = &CallBody::destroy;
  argument_count = static_cast<uint16_t>(schema.arguments().size());
  return_count = static_cast<uint16_t>(schema.returns().size());
  read_arguments(schema);
  read_returns(schema);
  draws = generator_argument >= 0 || op.hasTag(at::Tag::nondeterministic_seeded);
  is_metadata |= op.hasTag(at::Tag::inplace_view);
  apply_tables(schema);
}

void OperatorInfo::read_arguments(const c10::FunctionSchema& schema) {
  uint16_t index = 0;
  for (const c10::Argument& argument : schema.arguments()) {
    const std::string type = argument.type()->str();
    const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    writes |= written;
    TensorArgument tensor{index, TensorArgument::Kind::kTensor, written, false};
    if (type == "Tensor" || type == "Tensor?") {
      tensors.push_back(tensor);
    } else if (type == "Tensor[]" || type == "Tensor[]?") {
      tensor.kind = TensorArgument::Kind::kTensorList;
      tensors.push_back(tensor);
    } else if (type == "Tensor?[]") {
      tensor.kind = TensorArgument::Kind::kOptionalTensorList;
      tensors.push_back(tensor);
    } else if (contains(type, "Tensor") || contains(type, "Storage") || contains(type, "Any") ||
               contains(type, "__torch__") || contains(type, "Future")) {
      replayable = false;
    }
    if (contains(type, "Generator")) generator_argument = index;
    if (type == "Storage") storage_argument = index;
    ++index;
  }
}

void OperatorInfo::read_returns(const c10::FunctionSchema& schema) {
  bool views = false;
  returns_tensor = false;
  for (const c10::Argument& result : schema.returns()) {
    returns_list |= result.type()->str() != "Tensor";
    returns_tensor |= contains(result.type()->str(), "Tensor");
    views |= result.alias_info() != nullptr && !result.alias_info()->isWrite();
  }
  is_metadata = views && !writes && !TIDEPOOL_MUTANT(9, view);
}

void OperatorInfo::apply_tables(const c10::FunctionSchema& schema) {
  for (std::string_view prefix : kMetadataPrefixes) {
    if (TIDEPOOL_MUTANT(9, empty)) continue;
    is_metadata |= std::string_view(qualified_name).starts_with(prefix);
  }
  for (std::string_view known : kStorageSurgery) {
    if (qualified_name != known) continue;
    is_metadata = false;
    replayable = false;
  }
  is_trusted = false;
  for (std::string_view prefix : kTrustedPrefixes) {
    is_trusted |= std::string_view(qualified_name).starts_with(prefix);
  }
  replayable &= is_trusted || TIDEPOOL_MUTANT(5, python_operator);
  // An operator that nobody vouches for, with no tensor to show for it, has effects all the same.
  keeps_operands = std::string_view(qualified_name).starts_with("c10d") ||
                   qualified_name == "aten::_lazy_clone" ||
                   (!is_trusted && !writes && !returns_tensor);
  varies = variation_of(schema.name());
  if (varies == Variation::kTransposed) {
    switch_argument = schema.argumentIndexWithName("transposed").value_or(-1);
  }
  for (std::string_view known : kMetadataNames) is_metadata |= qualified_name == known;
  for (std::string_view known : kFullOverwrites) overwrites |= qualified_name == known;
  for (const HiddenWrite& hidden : kHiddenWrites) {
    if (qualified_name != hidden.name || TIDEPOOL_MUTANT(3, hidden_write)) continue;
    switch_argument = schema.argumentIndexWithName(hidden.training).value_or(-1);
    for (TensorArgument& tensor : tensors) {
      const std::string& argument = schema.arguments()[tensor.index].name();
      tensor.side_writes = argument == hidden.written[0] || argument == hidden.written[1];
    }
  }
}

namespace {

constexpr char kForgottenKey = 0;

// Open addressing by the address of the operator's name, which is stable while it is registered.
// Slots are used once; readers see a key only after its info.
class OperatorTable {
 public:
  const OperatorInfo& find_or_make(const c10::OperatorHandle& op) {
    const void* key = &op.operator_name();
    for (size_t slot = hash(key);; slot = (slot + 1) & (kSlots - 1)) {
      const void* found = slots_[slot].key.load(std::memory_order_acquire);
      if (found == key) [[likely]] return *slots_[slot].info;
      if (found == nullptr) break;
    }
    return add(key, op);
  }

  void forget(const c10::OperatorHandle& op) {
    const void* key = &op.operator_name();
    std::lock_guard<std::mutex> guard(mutex_);
    overflow_.erase(key);
    for (size_t slot = hash(key);; slot = (slot + 1) & (kSlots - 1)) {
      const void* found = slots_[slot].key.load(std::memory_order_relaxed);
      if (found == key) slots_[slot].key.store(kForgotten, std::memory_order_release);
      if (found == key || found == nullptr) return;
    }
  }

 private:
  static constexpr const void* kForgotten = &kForgottenKey;
  static constexpr size_t kSlots = 1u << 15;  // PyTorch has about 3,500 operators
  struct Slot {
    std::atomic<const void*> key{nullptr};
    const OperatorInfo* info = nullptr;
  };

  static size_t hash(const void* key) {
    return (reinterpret_cast<uintptr_t>(key) * 0x9E3779B97F4A7C15ull) >> 49;
  }

  const OperatorInfo& add(const void* key, const c10::OperatorHandle& op) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (count_ * 2 > kSlots) return overflow(key, op);
    for (size_t slot = hash(key);; slot = (slot + 1) & (kSlots - 1)) {
      const void* found = slots_[slot].key.load(std::memory_order_relaxed);
      if (found == key) return *slots_[slot].info;
      if (found != nullptr) continue;
      slots_[slot].info = new OperatorInfo(op);
      slots_[slot].key.store(key, std::memory_order_release);
      ++count_;
      return *slots_[slot].info;
    }
  }

  const OperatorInfo& overflow(const void* key, const c10::OperatorHandle& op) {
    const OperatorInfo*& info = overflow_[key];
    if (info == nullptr) info = new OperatorInfo(op);
    return *info;
  }

  std::mutex mutex_;
  size_t count_ = 0;
  std::unordered_map<const void*, const OperatorInfo*> overflow_;
  std::array<Slot, kSlots> slots_;
};

OperatorTable& operator_table() {
  static auto* table = new OperatorTable;
  return *table;
}

}  // namespace

const OperatorInfo& info_of(const c10::OperatorHandle& op) {
  return operator_table().find_or_make(op);
}

void forget_operator(const c10::OperatorHandle& op) { operator_table().forget(op); }

}  // namespace tidepool::torch_glue
