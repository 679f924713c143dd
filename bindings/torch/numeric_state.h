// NumericState: the switches of a thread and of PyTorch that decide an operator's bits. Captured
// when an operator is recorded, applied around its replay, and put back afterwards.
// A value type; capture() and Scope read and write the calling thread's and global state.
#pragma once

#include <array>
#include <cstdint>

namespace tidepool::torch_glue {

struct NumericState {
  uint64_t autocast_excluded = 0;  // autocast's bits of the thread's excluded dispatch keys
  uint32_t floating_point = 0;     // MXCSR control bits: rounding, flush to zero, denormals
  uint16_t threads = 0;            // intra-op threads: reductions split by their number
  int8_t autocast_dtype = -1;      // -1: autocast off
  int8_t default_dtype = 0;        // decides the result of integers with a Python float
  // at::Float32Precision as set, not as it comes out: generic; oneDNN's default, convolutions,
  // recurrent layers, other matrix products.
  std::array<uint8_t, 5> precision = {};
  bool grad_mode : 1 = false;
  bool deterministic : 1 = false;
  bool deterministic_warn_only : 1 = false;
  bool fill_uninitialized : 1 = false;
  bool mkldnn : 1 = false;
  bool mkldnn_deterministic : 1 = false;
  bool nnpack : 1 = false;
  bool flash_attention : 1 = false;
  bool math_attention : 1 = false;

  static NumericState capture();
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
