#include "bindings/torch/plugin/api.h"

#include <exception>

#include "bindings/torch/engine/engine.h"
#include "bindings/torch/engine/work_recorder.h"
#include "bindings/torch/plugin/c_results.h"
#include "bindings/torch_cpu/allocation_log.h"
#include "bindings/torch_cpu/cpu_engine.h"
#include "bindings/torch_cpu/statistics_json.h"

using namespace tidepool::torch_glue;

namespace {
Engine* cpu_engine() { return engines_installed() ? engine_of(c10::Device(c10::kCPU)) : nullptr; }
}  // namespace

uint32_t tidepool_built_for() { return TIDEPOOL_TORCH_MAJOR << 8 | TIDEPOOL_TORCH_MINOR; }

int tidepool_attach(const char* settings, char* error, size_t error_bytes) {
  try {
    read_work_recorder_settings(settings);
    tidepool::torch_cpu::attach_cpu(tidepool::torch_cpu::Settings::parse(settings));
    return 0;
  } catch (const std::exception& exception) {
    return fail(kFailed, exception.what(), error, error_bytes);
  }
}

int tidepool_attached() { return cpu_engine() != nullptr ? 1 : 0; }

size_t tidepool_statistics(char* out, size_t capacity) {
  if (cpu_engine() == nullptr) return 0;
  return give_text(tidepool::torch_cpu::statistics_json(*cpu_engine()), out, capacity);
}

int tidepool_set_limit(uint64_t bytes, char* error, size_t error_bytes) {
  if (cpu_engine() == nullptr) return fail(kFailed, "Tidepool is not attached", error, error_bytes);
  try {
    if (tidepool::torch_cpu::set_limit(*cpu_engine(), bytes)) {
      tell_work_recorders_of_limit(bytes);
      return 0;
    }
    return fail(kOutOfMemory, limit_refusal(bytes), error, error_bytes);
  } catch (const std::exception& exception) {
    return fail(kFailed, exception.what(), error, error_bytes);
  }
}

size_t tidepool_allocation_log(char* out, size_t capacity) {
  const tidepool::torch_cpu::AllocationLog* const log = tidepool::torch_cpu::allocation_log();
  return log == nullptr ? 0 : give_text(log->text(), out, capacity);
}
