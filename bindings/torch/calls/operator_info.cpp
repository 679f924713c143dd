#include "bindings/torch/calls/operator_info.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "bindings/torch/base/devices.h"
#include "bindings/torch/base/interpreter.h"
#include "bindings/torch/base/name_lists.h"
#include "bindings/torch/calls/call_body.h"
#include "bindings/torch/calls/operator_evidence.h"
#include "bindings/torch/calls/varying_operators.h"
#include "remat/lineage/list_operators.h"

namespace tidepool::torch_glue {
namespace {

// Operators that write every element of their one written argument and read none of it.
constexpr std::array kFullOverwrites = {
    "aten::zero_",
    "aten::fill_.Scalar",
    "aten::fill_.Tensor",
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
    "aten::copy_",
    "aten::linspace.out",
    "aten::logspace.out",
    "aten::range.out",
    "aten::arange.start_out",
    "aten::randperm.generator_out",
};

// Operators, in all their overloads, that go by strides and offsets of their own, or copy the gaps
// between what their argument shows.
constexpr std::array kReadBeyond = {"aten::copy",
                                    "aten::_foreach_copy",
                                    "aten::as_strided_copy",
                                    "aten::as_strided_scatter",
                                    "aten::slice_scatter",
                                    "aten::select_scatter",
                                    "aten::diagonal_scatter",
                                    "aten::_reshape_alias_copy"};

// Operators, in all their overloads, that write arguments which their schema says they only read:
// when `training` is set; where there is no such argument always, and a replay that left them out
// would be another call.
struct HiddenWrite {
  std::string_view name;
  std::array<std::string_view, 2> written;
  std::string_view training;
};
constexpr std::array<std::string_view, 2> kStatistics = {"running_mean", "running_var"};
constexpr std::array kHiddenWrites = {
    HiddenWrite{"aten::native_batch_norm", kStatistics, "training"},
    HiddenWrite{"aten::cudnn_batch_norm", kStatistics, "training"},
    HiddenWrite{"aten::miopen_batch_norm", kStatistics, "training"},
    HiddenWrite{"aten::batch_norm_update_stats", kStatistics, {}},
    HiddenWrite{"aten::batch_norm_gather_stats", kStatistics, {}},
    HiddenWrite{"aten::batch_norm_gather_stats_with_counts", kStatistics, {}},
    HiddenWrite{"aten::mkldnn_rnn_layer_backward", {"workspace"}, {}},
    HiddenWrite{"aten::_cudnn_rnn", {"dropout_state"}, {}},
    HiddenWrite{"aten::miopen_rnn", {"dropout_state"}, {}},
};

// Operators one of whose results is scratch memory on the CPU: parts of it are never written, and
// nobody reads those, but for copies. The backward pass, "<name>_backward", reads the rest.
struct ScratchResult {
  std::string_view name;
  size_t result;
};
constexpr std::array kScratchResults = {ScratchResult{"aten::mkldnn_rnn_layer", 3},
                                        ScratchResult{"aten::_ctc_loss", 1}};

// Metadata operators that their schema does not show as views.
constexpr std::array kMetadataPrefixes = {"aten::empty", "aten::new_empty",
                                          "aten::_efficientzerotensor"};
constexpr std::array kMetadataNames = {"aten::set_", "aten::shallow_copy_data_"};

// Operators whose effect is not on contents alone: they change the storage itself, or hand out an
// alias that nothing shows. They run, on restored operands, and their results are roots.
constexpr std::array kStorageSurgery = {
    "aten::resize_",
    "aten::resize_as_",
    "aten::resize_as_sparse_",
    "aten::resize.out",
    "aten::_lazy_clone",
    "aten::_resize_output_",
    "aten::_pin_memory",
    "aten::set_data",
    "aten::resize_output_",
    // These compare the pointers of the old and the new storage.
    "aten::set_.source_Storage",
    "aten::set_.source_Storage_storage_offset",
    "aten::set_.source_Tensor",
    "aten::set_.source_Tensor_storage_offset",
};

// Operators that draw only by calling one that takes a generator, through the dispatcher.
constexpr std::array kDrawingComposites = {
    "aten::rand",    "aten::rand_like",    "aten::randn",    "aten::randn_like",
    "aten::randint", "aten::randint_like", "aten::randperm",
};
// The same, on the CPU. (CUDA has a kernel of its own for it.)
constexpr std::string_view kDropout = "aten::native_dropout";

// Take no generator, and draw from the default one of their device alone, by
// at::cuda::detail::getDefaultCUDAGenerator().
constexpr std::array kDrawByDefaultOnly = {
    "aten::native_dropout",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_flash_attention_forward",
    "aten::_efficient_attention_forward",
    "aten::_cudnn_attention_forward",
};

// Tagged as drawing, but they only read what another one has drawn, or draw nothing at all.
constexpr std::array kDrawNothing = {
    "aten::_fused_sdp_choice",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_cudnn_attention_backward",
    "aten::_scaled_dot_product_efficient_attention_backward",
    "aten::_cudnn_attention_backward",
};

// Runs a compiled graph, which the package has read, and found to be a function of its inputs:
// bindings/python/tidepool/hooks/_compiled_calls.py.
constexpr std::string_view kCompiledGraph = "tidepool::compiled_graph";

bool multiplies_sparse(std::string_view name) {
  return name == kSparseProduct || name == kSparseReduction;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// A type whose values a record can hold: numbers, strings, generators, and lists of such.
bool is_plain(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::OptionalType:
      return is_plain(type->expectRef<c10::OptionalType>().getElementType());
    case c10::TypeKind::ListType:
      return is_plain(type->expectRef<c10::ListType>().getElementType());
    case c10::TypeKind::IntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::ComplexType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::NumberType:
    case c10::TypeKind::StringType:
    case c10::TypeKind::NoneType:
    case c10::TypeKind::DeviceObjType:
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType:
    case c10::TypeKind::ScalarTypeType:
    case c10::TypeKind::QSchemeType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::SymFloatType:
    case c10::TypeKind::SymBoolType:
    case c10::TypeKind::GeneratorType:
      return true;
    default:
      return false;
  }
}

// Whether others may write what the operator returns after it has returned.
bool starts_work(std::string_view name) {
  return name.starts_with("c10d") || name.starts_with("_c10d");
}

// Waits for a collective, or wraps what will wait for it; returns its operand.
bool returns_operand(std::string_view name) {
  return name == "_c10d_functional::wait_tensor" ||
         name == "_c10d_functional::_wrap_tensor_autograd";
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
  const bool is_atens = std::string_view(qualified_name).starts_with("aten::");
  may_run_python_ = !is_atens && !multiplies_sparse(qualified_name);
  is_foreign_ = may_run_python_ && qualified_name != kCompiledGraph;
  read_arguments(schema);
  read_returns(schema);
  is_metadata |= op.hasTag(at::Tag::inplace_view);
  apply_tables(schema);
  apply_hidden_writes(schema);
  read_draws(schema);
  kernel_.remember(op);
  if (is_atens && !kernel_.is_of_torch()) distrust();
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
    } else if (contains(type, "Tensor")) {
      tensor.kind = TensorArgument::Kind::kNested;
      tensors.push_back(tensor);
      replayable = false;
    } else if (!is_plain(argument.type())) {
      replayable = false;
    }
    if (contains(type, "Generator")) generator_argument = index;
    if (type == "Storage") storage_argument = index;
    ++index;
  }
}

namespace {

// Whether the operator does the same to each element of its lists, and nothing else.
bool works_by_element(const c10::FunctionSchema& schema) {
  // A tensor of that name has an entry for each element.
  const auto scalars = schema.argumentIndexWithName("scalars");
  return remat::is_list_operator(schema.name()) &&
         !(scalars && schema.arguments()[*scalars].type()->str() == "Tensor") &&
         std::all_of(schema.returns().begin(), schema.returns().end(),
                     [](const auto& result) { return result.type()->str() == "Tensor[]"; });
}

}  // namespace

void OperatorInfo::read_returns(const c10::FunctionSchema& schema) {
  bool views = false;
  returns_tensor = false;
  for (const c10::Argument& result : schema.returns()) {
    const std::string type = result.type()->str();
    // A replay finds its outputs in these, and in nothing that holds tensors.
    replayable &=
        !contains(type, "Tensor") || type == "Tensor" || type == "Tensor?" || type == "Tensor[]";
    returns_list |= type != "Tensor";
    returns_tensor |= contains(type, "Tensor");
    views |= result.alias_info() != nullptr && !result.alias_info()->isWrite();
  }
  is_metadata = views && !writes;
}

void OperatorInfo::apply_tables(const c10::FunctionSchema& schema) {
  bool is_surgery = false;
  for (std::string_view prefix : kMetadataPrefixes) {
    const bool is_empty = std::string_view(qualified_name).starts_with(prefix);
    is_metadata |= is_empty && !writes;
    is_surgery |= is_empty && writes;  // the job's own tensor gets another size
  }
  for (std::string_view known : kStorageSurgery) is_surgery |= qualified_name == known;
  is_metadata &= !is_surgery;
  replayable &= !is_surgery;
  const Evidence evidence =
      host_is_foreign() ? device_evidence(qualified_name) : host_evidence(qualified_name);
  const bool is_compiled_graph = qualified_name == kCompiledGraph;
  is_trusted_ = evidence == Evidence::kTrusted || evidence == Evidence::kVaries || is_surgery ||
                is_compiled_graph || multiplies_sparse(qualified_name);
  if (is_compiled_graph) {
    length_argument = schema.argumentIndexWithName("results").value_or(-1);
  }
  replayable &= evidence != Evidence::kVaries;
  tells_all_ = is_foreign_ && replayable && returns_tensor && !writes && !is_metadata &&
               !handle.hasTag(at::Tag::nondeterministic_seeded) && generator_argument < 0 &&
               !starts_work(qualified_name);
  replayable &= is_trusted_ || tells_all_;
  is_collective = starts_work(qualified_name);
  returns_work = is_collective && !schema.returns().empty() &&
                 contains(schema.returns().back().type()->str(), "c10d.Work");
  // An operator that nobody vouches for, with no tensor to show for it, has effects all the same.
  keeps_operands = qualified_name == "aten::_lazy_clone" ||
                   (!is_collective && !is_trusted_ && !writes && !returns_tensor);
  varies = host_is_foreign() ? variation_of(schema.name()) : host_variation_of(qualified_name);
  if (varies == Variation::kTransposed) {
    switch_argument = schema.argumentIndexWithName("transposed").value_or(-1);
  }
  for (std::string_view known : kMetadataNames) is_metadata |= qualified_name == known;
  // Views of others may be chosen by contents, and those of nested tensors read the tables of
  // sizes.
  is_metadata &= is_trusted_ && !std::string_view(qualified_name).starts_with("aten::_nested");
  is_metadata |= is_collective && returns_operand(qualified_name);
  for (std::string_view known : kFullOverwrites) overwrites |= qualified_name == known;
  // Those of others, and compiled graphs, may take strided views of what they are given.
  reads_beyond = may_run_python_;
  for (std::string_view known : kReadBeyond) reads_beyond |= schema.name() == known;
  for (const ScratchResult& known : kScratchResults) {
    if (schema.name() == known.name && !writes && !host_is_foreign()) scratch_result = known.result;
    knows_scratch |= schema.name() == std::string(known.name) + "_backward";
  }
  overwrites_in_place = overwrites && schema.name().ends_with('_');
  if (is_trusted_ && works_by_element(schema)) {
    maps_lists = remat::list_operator_named(schema.name());
    makes_lists = !writes && remat::maps_to_list(schema.name());
  }
}

void OperatorInfo::apply_hidden_writes(const c10::FunctionSchema& schema) {
  for (const HiddenWrite& hidden : kHiddenWrites) {
    if (schema.name() != hidden.name) continue;
    replayable &= !hidden.training.empty();
    switch_argument = schema.argumentIndexWithName(hidden.training).value_or(-1);
    for (TensorArgument& tensor : tensors) {
      const std::string& argument = schema.arguments()[tensor.index].name();
      tensor.side_writes = argument == hidden.written[0] || argument == hidden.written[1];
    }
  }
}

void OperatorInfo::read_draws(const c10::FunctionSchema& schema) {
  draws = generator_argument >= 0 || handle.hasTag(at::Tag::nondeterministic_seeded);
  if (!draws || generator_argument >= 0) return;
  const bool is_dropout = schema.name() == kDropout;
  if (lists(kDrawingComposites, schema.name()) || (is_dropout && !host_is_foreign())) {
    is_metadata = true;
    return;
  }
  draws = !lists(kDrawNothing, schema.name());
  draws_by_default_only = lists(kDrawByDefaultOnly, schema.name());
  draw_argument = schema.argumentIndexWithName("dropout_p").value_or(-1);
}

namespace {
std::atomic<OperatorJudge> g_judge{nullptr};
}  // namespace

void set_operator_judge(OperatorJudge judge) { g_judge.store(judge, std::memory_order_release); }

// Several threads may ask at once, and get the same answer.
void OperatorInfo::judge() const {
  const OperatorJudge ask = g_judge.load(std::memory_order_acquire);
  if (ask == nullptr) return;
  const std::string library = kernel_library(handle);
  const Undisturbed scope;  // what the job's code raises would not get through this call
  const bool trusted = ask(qualified_name.c_str(), library.c_str(), tells_all_) && tells_all_;
  static std::mutex mutex;
  const std::lock_guard<std::mutex> guard(mutex);
  if (verdict_.load(std::memory_order_relaxed) != Verdict::kNone) return;
  kernel_.remember(handle);  // there was none yet when the operator was defined
  verdict_.store(trusted ? Verdict::kTrusted : Verdict::kKept, std::memory_order_release);
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
      if (found == key) [[likely]]
        return *slots_[slot].info;
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

std::optional<c10::OperatorHandle> operator_named(std::string_view name) {
  const size_t dot = name.find('.');
  return c10::Dispatcher::singleton().findOp(
      {std::string(name.substr(0, dot)),
       dot == std::string_view::npos ? "" : std::string(name.substr(dot + 1))});
}

const OperatorInfo& info_of(const c10::OperatorHandle& op) {
  return operator_table().find_or_make(op);
}

void forget_operator(const c10::OperatorHandle& op) { operator_table().forget(op); }

}  // namespace tidepool::torch_glue
