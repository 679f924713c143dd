#include "bindings/torch_cuda/api.h"

#include <c10/core/StorageImpl.h>

#include <exception>
#include <string>

#include "bindings/torch/engine/work_recorder.h"
#include "bindings/torch/plugin/c_results.h"
#include "bindings/torch_cuda/cuda_allocator.h"

using tidepool::torch_cuda::CudaAllocator;
using tidepool::torch_cuda::Settings;
using tidepool::torch_glue::fail;
using tidepool::torch_glue::give_text;
using tidepool::torch_glue::kFailed;
using tidepool::torch_glue::kOutOfMemory;

uint32_t tidepool_built_for() { return TIDEPOOL_TORCH_MAJOR << 8 | TIDEPOOL_TORCH_MINOR; }

int tidepool_attach(const char* settings, char* error, size_t error_bytes) {
  try {
    tidepool::torch_glue::read_work_recorder_settings(settings);
    CudaAllocator::install(Settings::parse(settings));
    return 0;
  } catch (const std::exception& exception) {
    return fail(kFailed, exception.what(), error, error_bytes);
  }
}

int tidepool_attached() { return CudaAllocator::installed() != nullptr ? 1 : 0; }

size_t tidepool_statistics(char* out, size_t capacity) {
  if (CudaAllocator::installed() == nullptr) return 0;
  return give_text(CudaAllocator::installed()->statistics_json(), out, capacity);
}

int tidepool_set_limit(uint64_t bytes, char* error, size_t error_bytes) {
  if (CudaAllocator::installed() == nullptr) {
    return fail(kFailed, "Tidepool is not attached", error, error_bytes);
  }
  try {
    if (CudaAllocator::installed()->set_limit(bytes)) {
      tidepool::torch_glue::tell_work_recorders_of_limit(bytes);
      return 0;
    }
    return fail(kOutOfMemory, tidepool::torch_glue::limit_refusal(bytes), error, error_bytes);
  } catch (const std::exception& exception) {
    return fail(kFailed, exception.what(), error, error_bytes);
  }
}

int tidepool_make_shareable(void* storage, char* error, size_t error_bytes) {
  if (CudaAllocator::installed() == nullptr || storage == nullptr) return 0;
  try {
    CudaAllocator::installed()->make_shareable(static_cast<c10::StorageImpl*>(storage));
    return 0;
  } catch (const c10::OutOfMemoryError& exception) {
    return fail(kOutOfMemory, exception.what_without_backtrace(), error, error_bytes);
  } catch (const std::exception& exception) {
    return fail(kFailed, exception.what(), error, error_bytes);
  }
}
