// OperatorInfo: what is known of one operator from its schema and from our tables: which arguments
// are tensors, which it writes, whether it draws, and how interception treats it.
// Immutable after construction but for what is said of its kernel, distrust() and judge_once(),
// never freed; OperatorTable finds it by the operator's handle.
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bindings/torch/calls/device_kernel.h"
#include "remat/lineage/lineage.h"
#include "remat/lineage/list_operators.h"

namespace tidepool::torch_glue {

struct TensorArgument {
  // kNested: tensors in lists of lists, dictionaries or tuples; such a call cannot be recorded.
  enum class Kind : uint8_t { kTensor, kTensorList, kOptionalTensorList, kNested };
  uint16_t index = 0;
  Kind kind = Kind::kTensor;
  bool writes = false;       // by its schema
  bool side_writes = false;  // hidden by its schema: running statistics, a state of its own
};

// The switches under which an operator gives the same bits each time.
enum class Variation : uint8_t {
  kNone,         // under any
  kAlgorithms,   // with deterministic algorithms on
  kConvolution,  // with deterministic algorithms on, all of them or cuDNN's
  kTransposed,   // as kConvolution, or if the operator's own switch is off; unless plans were tried
  kPlaces,       // on the CPU: if it writes each place once, or on one thread
  kPlanes,       // likewise, for each plane that `max_unpool2d` or `max_unpool3d` writes
};
// Whether it takes the indices of a call to say whether its result may vary.
inline bool depends_on_places(Variation variation) {
  return variation == Variation::kPlaces || variation == Variation::kPlanes;
}
// Whether results may vary under the present switches, the operator's own being `switched`; see
// bindings/torch/calls/varying_operators.h.
bool may_vary(Variation variation, bool switched = true);
// An operator was refused memory, and went on without.
void note_refused_memory(Variation variation);

// Multiplies a sparse matrix: bindings/torch/intercept/sparse_products.h.
inline constexpr std::string_view kSparseProduct = "tidepool::sparse_product";
// The same, as sum or mean by name: a second result has no elements.
inline constexpr std::string_view kSparseReduction = "tidepool::sparse_reduction";

struct OperatorInfo : remat::RecordType {
  std::string qualified_name;  // "aten::add.Tensor"
  c10::OperatorHandle handle;
  uint16_t argument_count = 0;
  uint16_t return_count = 0;
  c10::SmallVector<TensorArgument, 6> tensors;
  int generator_argument = -1;
  int storage_argument = -1;
  int switch_argument = -1;  // side writes, or variation, only if this bool argument is true
  int length_argument = -1;  // says how many tensors the list that it returns has
  size_t scratch_result = SIZE_MAX;  // parts of it nobody writes, nor reads
  int draw_argument = -1;  // draws only if this number, a dropout's probability, is not zero
  // The operator never looks at bytes itself, and is not intercepted: views, `empty`, and what
  // draws only by calling an operator with a generator, which is seen in its place.
  bool is_metadata = false;
  bool writes = false;               // any writing argument
  bool overwrites = false;           // writes all of its one written argument and never reads it
  bool overwrites_in_place = false;  // the same, and cannot give it another size
  bool reads_beyond = false;         // reads more of a storage than what its argument shows
  bool replayable = true;            // false: arguments or effects that a replay cannot reproduce
  bool returns_list = false;
  // Whether it works on the elements of its lists one by one, and whether its results are then as
  // large as they.
  remat::ListOperator maps_lists = remat::ListOperator::kNone;
  bool makes_lists = false;
  bool returns_tensor = false;
  bool draws_by_default_only = false;  // takes no generator: all is drawn from the default one
  Variation varies = Variation::kNone;
  bool keeps_operands = false;  // goes on using its arguments' memory after it has returned
  // Has a process group work on its arguments, and leaves that to collectives that it calls, or
  // returns a c10d::Work, until whose end it goes on using them.
  bool is_collective = false;
  bool returns_work = false;

  explicit OperatorInfo(const c10::OperatorHandle& op);

  // Whether the operator is trusted: its schema, corrected by our tables, tells all that it does, a
  // replay gives the same bits, and the kernel that runs is still the one of which this is known.
  // One in Python is not where a mode of the job's sees what it calls, as no mode sees a replay.
  bool is_trusted() const {
    const bool is_vouched_for =
        is_trusted_ || verdict_.load(std::memory_order_acquire) == Verdict::kTrusted;
    return is_vouched_for && has_known_kernel() &&
           !(may_run_python() && at::impl::torch_function_mode_enabled());
  }
  // Whether the kernel is PyTorch's own, of whose memory accesses nothing is hidden but the address
  // of what it is shown.
  bool is_pytorchs() const { return !may_run_python_ && has_known_kernel(); }
  // Whether the kernel may be in Python, as that of a compiled graph, or of a job's operator, is.
  bool may_run_python() const { return may_run_python_; }
  // Whether the kernel is the job's or a library's. Such a kernel may use tensors that are no
  // arguments, by operators.
  bool is_foreign() const { return (is_foreign_ || is_trusted_) && !is_trusted(); }
  // Has the judge, if there is one, say whether an operator that is not of PyTorch's own is
  // trusted. Requires: no lock is held, because the judge may run Python.
  void judge_once() const {
    if (is_foreign_ && verdict_.load(std::memory_order_acquire) == Verdict::kNone) [[unlikely]]
      judge();
  }
  // Ends the trust in the operator for good, because another kernel takes the place of the one
  // there was.
  void distrust() const { distrusted_.store(true, std::memory_order_relaxed); }
  const DeviceKernel& kernel() const { return kernel_; }
  // These stand around the registration of a router of PyTorch's: DeviceKernel::note_router().
  // `anew`: there was one before the operator was first seen, and it has just been taken away.
  void begin_routing(bool anew) const {
    if (!anew && kernel_.is_replaced()) distrust();
    kernel_.remember(handle);
  }
  void end_routing() const { kernel_.note_router(); }

 private:
  enum class Verdict : uint8_t { kNone, kKept, kTrusted };

  void judge() const;
  bool has_known_kernel() const {
    return !distrusted_.load(std::memory_order_relaxed) && !kernel_.is_replaced();
  }
  void read_arguments(const c10::FunctionSchema& schema);
  void read_returns(const c10::FunctionSchema& schema);
  void apply_tables(const c10::FunctionSchema& schema);
  void apply_hidden_writes(const c10::FunctionSchema& schema);
  void read_draws(const c10::FunctionSchema& schema);

  bool is_trusted_ = true;
  bool is_foreign_ = false;  // not of PyTorch's own operators
  bool may_run_python_ = false;
  bool tells_all_ = false;  // by its schema a replay can reproduce all that it does
  mutable std::atomic<bool> distrusted_{false};
  mutable std::atomic<Verdict> verdict_{Verdict::kNone};
  mutable DeviceKernel kernel_;
};

// Says, at an operator's first call, whether a user trusts one that is not of PyTorch's own.
// `name`: as OperatorInfo::qualified_name. `library`: the path of the library that has its kernel;
// "" if that is not known. `tells_all`: whether by its schema it writes nothing, returns fresh
// tensors, and gives the same bits each time; another one cannot be trusted, whatever the judge
// says.
using OperatorJudge = bool (*)(const char* name, const char* library, bool tells_all);
// Without a judge no such operator is trusted. Called once, before operators are intercepted.
void set_operator_judge(OperatorJudge judge);

// The operator "aten::add", or "aten::add.Tensor", if there is one. It may be without a schema.
std::optional<c10::OperatorHandle> operator_named(std::string_view name);

// The info of `op`, made on first sight. Thread safe; a hit costs no lock.
const OperatorInfo& info_of(const c10::OperatorHandle& op);

// Forgets `op`, which is going away; another operator may get its handle. Thread safe.
void forget_operator(const c10::OperatorHandle& op);

}  // namespace tidepool::torch_glue
