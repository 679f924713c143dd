// cuBLAS and cuBLASLt: handles, descriptors, workspaces. What computes and has no code here comes
// from generate.py: an enqueued operation on the handle's stream. Result bytes are never written.
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/fake_cuda/core/export.h"
#include "tests/support/fake_cuda/core/machine.h"
#include "tests/support/fake_cuda/core/stream_calls.h"
#include "tests/support/fake_cuda/math/handle.h"

namespace tidepool::fake_cuda::math {
namespace {

constexpr int kSuccess = 0;

// Any descriptor: nobody reads what is set in it.
struct Descriptor {};

int make_descriptor(void** descriptor) {
  *descriptor = new Descriptor;
  return kSuccess;
}

int drop_descriptor(void* descriptor) {
  delete static_cast<Descriptor*>(descriptor);
  return kSuccess;
}

// cublasLtMatmulHeuristicResult_t.
struct HeuristicResult {
  unsigned long long algorithm[8];
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

int heuristic(int wanted, HeuristicResult* results, int* found) {
  *found = wanted > 0 ? 1 : 0;
  if (wanted <= 0) return kSuccess;
  results[0] = {};
  results[0].workspace_bytes = machine().settings.blas_workspace_bytes;
  results[0].waves = 1;
  return kSuccess;
}

constexpr int kTf32 = 3;  // CUBLAS_TF32_TENSOR_OP_MATH

// The name of the function's operation with such products; never freed.
const char* in_tf32(const char* function) {
  static std::mutex mutex;
  static auto* const names = new std::set<std::string>;
  const std::lock_guard<std::mutex> guard(mutex);
  return names->insert(std::string(function) + "-tf32").first->c_str();
}

}  // namespace

int launch(void* handle, const char* function) {
  const Handle& own = *static_cast<Handle*>(handle);
  const char* const name = own.math_mode == kTf32 ? in_tf32(function) : function;
  return static_cast<int>(calls::launch(function, own.stream, name));
}

FAKE_CUDA_API int cublasCreate_v2(void** handle) {
  *handle = new Handle;
  return kSuccess;
}

FAKE_CUDA_API int cublasDestroy_v2(void* handle) {
  delete static_cast<Handle*>(handle);
  return kSuccess;
}

FAKE_CUDA_API int cublasSetStream_v2(void* handle, void* stream) {
  static_cast<Handle*>(handle)->stream = stream;
  return kSuccess;
}

FAKE_CUDA_API int cublasSetWorkspace_v2(void*, void*, size_t) { return kSuccess; }
FAKE_CUDA_API int cublasSetSmCountTarget(void*, int) { return kSuccess; }

FAKE_CUDA_API int cublasSetMathMode(void* handle, int mode) {
  static_cast<Handle*>(handle)->math_mode = mode;
  return kSuccess;
}

FAKE_CUDA_API int cublasGetMathMode(void* handle, int* mode) {
  *mode = static_cast<Handle*>(handle)->math_mode;
  return kSuccess;
}

FAKE_CUDA_API int cublasSetPointerMode_v2(void* handle, int mode) {
  static_cast<Handle*>(handle)->pointer_mode = mode;
  return kSuccess;
}

FAKE_CUDA_API int cublasGetPointerMode_v2(void* handle, int* mode) {
  *mode = static_cast<Handle*>(handle)->pointer_mode;
  return kSuccess;
}

FAKE_CUDA_API size_t cublasLtGetVersion() { return 130101; }

FAKE_CUDA_API int cublasLtMatmulDescCreate(void** descriptor, int, int) {
  return make_descriptor(descriptor);
}
FAKE_CUDA_API int cublasLtMatmulDescDestroy(void* descriptor) {
  return drop_descriptor(descriptor);
}
FAKE_CUDA_API int cublasLtMatmulDescSetAttribute(void*, int, const void*, size_t) {
  return kSuccess;
}
FAKE_CUDA_API int cublasLtMatrixLayoutCreate(void** descriptor, int, unsigned long long,
                                             unsigned long long, long long) {
  return make_descriptor(descriptor);
}
FAKE_CUDA_API int cublasLtMatrixLayoutDestroy(void* descriptor) {
  return drop_descriptor(descriptor);
}
FAKE_CUDA_API int cublasLtMatrixLayoutSetAttribute(void*, int, const void*, size_t) {
  return kSuccess;
}
FAKE_CUDA_API int cublasLtMatmulPreferenceCreate(void** descriptor) {
  return make_descriptor(descriptor);
}
FAKE_CUDA_API int cublasLtMatmulPreferenceDestroy(void* descriptor) {
  return drop_descriptor(descriptor);
}
FAKE_CUDA_API int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) {
  return kSuccess;
}

FAKE_CUDA_API int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*,
                                                 int wanted, HeuristicResult* results, int* found) {
  return heuristic(wanted, results, found);
}

FAKE_CUDA_API int cublasLtMatmul(void*, void*, const void*, const void*, void*, const void*, void*,
                                 const void*, const void*, void*, void*, void*, const void*, void*,
                                 size_t, void* stream) {
  return static_cast<int>(calls::launch(__func__, stream, __func__));
}

}  // namespace tidepool::fake_cuda::math
