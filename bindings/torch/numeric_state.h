// NumericState: the switches of a thread and of PyTorch that decide an operator's bits. Captured
// when an operator is recorded, applied around its replay, and put back afterwards.
// A value type; capture() and Scope read and write the calling thread's and global state.
#pragma once

#include <cstdint>

namespace tidepool::torch_glue {

// Kinds of matrix products for which PyTorch has a precision setting each.
enum class MatrixProduct : uint8_t { kNone, kConvolution, kRecurrent, kProduct };

struct NumericState {
  uint64_t autocast_excluded = 0;  // autocast's bits of the thread's excluded dispatch keys
  uint32_t floating_point = 0;     // MXCSR control bits: rounding, flush to zero, denormals
  uint16_t threads = 0;            // intra-op threads: reductions split by their number
  int8_t autocast_dtype = -1;      // -1: autocast off
  MatrixProduct matrix_product = MatrixProduct::kNone;
  uint8_t matrix_precision = 0;  // oneDNN's at::Float32Precision for that kind of product
  bool grad_mode : 1 = false;
  bool deterministic : 1 = false;
  bool deterministic_warn_only : 1 = false;
  bool fill_uninitialized : 1 = false;
  bool mkldnn : 1 = false;
  bool mkldnn_deterministic : 1 = false;

  // `product`: captures the precision for this kind only, as each takes a while to find out.
  static NumericState capture(MatrixProduct product);
  bool operator==(const NumericState&) const = default;
};

// Applies a state for the length of a scope; does nothing for what is equal already.
class NumericScope {
 public:
  explicit NumericScope(const NumericState& state);
  ~NumericScope();
  NumericScope(const NumericScope&) = delete;
  NumericScope& operator=(const NumericScope&) = delete;

 private:
  NumericState before_;
  NumericState during_;
  bool autocast_cache_ = false;
};

}  // namespace tidepool::torch_glue
