#include "bindings/torch_cpu/cpu_engine.h"

#include <memory>
#include <utility>
#include <stdexcept>

#include "allocator/private_host_space.h"
#include "bindings/torch/engine.h"
#include "bindings/torch_cpu/cpu_allocator.h"
#include "bindings/torch_cpu/cpu_backend.h"
#include "bindings/torch_cpu/mkl_kernels.h"

namespace tidepool::torch_cpu {
namespace {

struct Memory {
  explicit Memory(AllocatorConfig config)
      : allocator(space, mutex, with_prices(std::move(config))) {}
  static AllocatorConfig with_prices(AllocatorConfig config) {
    config.remap_ns_per_handle = 5000;
    config.measure_remaps = true;
    return config;
  }

  PrivateHostSpace space;
  DeviceMutex mutex;
  BudgetedAllocator allocator;
};

}  // namespace

void attach_cpu(const torch_glue::Settings& settings) {
  if (torch_glue::engines_installed()) throw std::runtime_error("Tidepool is attached already");
  choose_mkl_kernels();
  auto memory = std::make_unique<Memory>(settings.allocator);
  auto engine = std::make_unique<torch_glue::Engine>(
      c10::Device(c10::kCPU), memory->allocator, std::make_unique<CpuBackend>(memory->mutex),
      settings.runtime);
  torch_glue::install_engines(c10::kCPU, settings.runtime.recording);
  torch_glue::add_engine(std::move(engine));
  (void)memory.release();
  CpuAllocator::install();
}

}  // namespace tidepool::torch_cpu
