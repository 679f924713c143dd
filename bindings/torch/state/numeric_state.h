// NumericState: the switches of a thread and of PyTorch that decide an operator's bits. They are
// captured when an operator is recorded, applied around its replay, and put back afterwards. The
// choice of an attention kernel is not among them: each such kernel is an operator of its own, and
// the operator that chooses among them is not recorded.
// A value type; capture() and Scope read and write the calling thread's and global state.
#pragma once

#include <array>
#include <cstdint>

namespace tidepool::torch_glue {

struct NumericState {
  uint64_t autocast_excluded = 0;  // autocast's bits of the thread's excluded dispatch keys
  uint32_t floating_point = 0;     // MXCSR control bits: rounding, flush to zero, denormals
  uint16_t threads = 0;            // intra-op threads: reductions split by their number
  uint16_t mkl_threads = 0;        // MKL's, which a job may set by themselves; 0: there is no MKL
  int8_t autocast_dtype = -1;      // -1: autocast off
  int8_t default_dtype = 0;        // decides the result of integers with a Python float
  // at::Float32Precision as it was set, not what it amounts to: the generic one; oneDNN's default,
  // and those of its convolutions, recurrent layers and other matrix products; the same four of
  // CUDA, or 0.
  static constexpr size_t kHostPrecisions = 5;
  std::array<uint8_t, 9> precision = {};
  int8_t cuda_autocast_dtype = -1;
  uint32_t cuda_switches = 0;  // one bit for each; 0 if the job does not use CUDA
  bool no_tf32 = false;        // a guard of this thread has PyTorch's products in full precision
  int32_t sm_carveout = -1;    // multiprocessors that matrix products leave alone; -1: not set
  int8_t blas_library = -1;
  int8_t linalg_library = -1;
  uint8_t quantized_engine = 0;
  bool grad_mode = false;
  bool deterministic = false;
  bool deterministic_warn_only = false;
  bool fill_uninitialized = false;
  bool mkldnn = false;
  bool mkldnn_deterministic = false;
  bool nnpack = false;

  // Captures the present state, but for the numbers of threads. `cuda`: also the switches that
  // matter on CUDA devices.
  static NumericState capture(bool cuda);
  // The calling thread's number of threads. A thread chooses it at its first parallel kernel, and
  // asking PyTorch would make it choose.
  static uint16_t threads_now();
  // Captures the calling thread's numbers of threads, which are known once an operator has run.
  void capture_threads();
  // Whether the calling thread rounds to nearest, and flushes no denormal numbers.
  static bool rounds_as_usual();
  bool operator==(const NumericState&) const = default;
};

// Applies a state for the length of a scope, and does nothing for switches that are equal already.
// Switches of the whole process differ only if native code has changed them: before Python changes
// one, everything recorded is settled (Runtime::begin_settling()).
class NumericScope {
 public:
  // `cuda`: whether the state was captured with CUDA's switches.
  NumericScope(const NumericState& state, bool cuda);
  ~NumericScope();
  NumericScope(const NumericScope&) = delete;
  NumericScope& operator=(const NumericScope&) = delete;

 private:
  bool is_autocast() const {
    return during_.autocast_dtype >= 0 || during_.cuda_autocast_dtype >= 0;
  }

  NumericState before_;
  NumericState during_;
  bool autocast_cache_ = false;
  int mkl_before_ = -1;  // the thread's own number for MKL, 0 if it has none; -1: it was not set
};

}  // namespace tidepool::torch_glue
