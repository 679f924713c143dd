#include "bindings/torch_cpu/cpu_engine.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "allocator/space/private_host_space.h"
#include "bindings/torch/base/host_prices.h"
#include "bindings/torch/engine/engine.h"
#include "bindings/torch/plugin/installation.h"
#include "bindings/torch_cpu/allocation_log.h"
#include "bindings/torch_cpu/cpu_allocator.h"
#include "bindings/torch_cpu/cpu_backend.h"
#include "bindings/torch_cpu/driven_backend.h"
#include "bindings/torch_cpu/mkl_kernels.h"
#include "remat/tier/file_tier.h"

namespace tidepool::torch_cpu {
namespace {

AllocationLog* g_allocation_log = nullptr;  // is never destroyed

struct Memory {
  explicit Memory(const AllocatorConfig& config) : allocator(space, mutex, config) {}

  PrivateHostSpace space;
  DeviceMutex mutex;
  BudgetedAllocator allocator;
};

// The costs for a job that is driven by a trace; nullptr if this job is not.
std::unique_ptr<remat::RecordedCosts> recorded_costs(const Settings& settings) {
  const DrivenSettings& driven = settings.driven;
  if (driven.costs_path.empty()) return nullptr;
  if (settings.runtime.trace.recording.path.empty()) {
    throw std::invalid_argument("costs: expected a trace to be recorded, too");
  }
  return std::make_unique<remat::RecordedCosts>(driven.costs_path);
}

std::unique_ptr<CpuBackend> make_backend(const Settings& settings, Memory& memory,
                                         const remat::RecordedCosts* costs) {
  if (costs == nullptr) return std::make_unique<CpuBackend>(memory.mutex);
  const std::string& log_path = settings.driven.log_path;
  auto log = log_path.empty() ? nullptr : std::make_unique<remat::WorkLog>(log_path);
  return std::make_unique<DrivenBackend>(memory.allocator, *costs, std::move(log));
}

std::unique_ptr<remat::Tier> make_tier(const Settings& settings) {
  const torch_glue::OffloadSettings& offload = settings.runtime.offload;
  if (offload.capacity_bytes == 0) return nullptr;
  return std::make_unique<remat::FileTier>(offload.folder, offload.capacity_bytes);
}

}  // namespace

void attach_cpu(const Settings& settings) {
  if (torch_glue::engines_installed()) throw std::runtime_error("Tidepool is attached already");
  choose_mkl_kernels();
  const std::unique_ptr<remat::RecordedCosts> costs = recorded_costs(settings);
  AllocatorConfig config = settings.allocator;
  config.remap_ns_per_page = costs ? costs->facts().map_ns : torch_glue::kHostMapNs;
  config.drain_ns = costs ? costs->facts().drain_ns : 0;  // a CPU's memory is never waited for
  config.measure_remaps = costs == nullptr;
  config.search_ns_per_block = kHostSearchNsPerBlock;
  auto memory = std::make_unique<Memory>(config);
  if (settings.logs_allocations) {
    g_allocation_log = new AllocationLog;
    memory->allocator.set_observer(g_allocation_log);
  }
  auto engine = std::make_unique<torch_glue::Engine>(c10::Device(c10::kCPU), memory->allocator,
                                                     make_backend(settings, *memory, costs.get()),
                                                     settings.runtime, make_tier(settings));
  torch_glue::install_engines(c10::kCPU, settings.runtime);
  torch_glue::add_engine(std::move(engine));
  (void)memory.release();
  CpuAllocator::install();
}

bool set_limit(torch_glue::Engine& engine, size_t bytes) {
  static std::mutex mutex;
  static size_t last_bytes = SIZE_MAX;  // what was last asked for and is in force
  const std::lock_guard<std::mutex> guard(mutex);
  BudgetedAllocator& allocator = engine.allocator();
  if (bytes < allocator.page_bytes()) return false;  // nothing could be allocated any more
  size_t held_bytes = allocator.set_limit(bytes);
  if (held_bytes > bytes) {
    try {  // The policy chooses what goes. One page more, as the block may begin and end within
           // some.
      allocator.free(allocator.allocate(held_bytes - bytes + allocator.page_bytes()));
      held_bytes = allocator.set_limit(bytes);
    } catch (const OutOfMemory&) {
      // What stays lies in between: all the rest goes.
    }
  }
  if (held_bytes > bytes) {
    {
      DeviceLock lock(engine.mutex());
      engine.runtime().evict_everything();
      // Small blocks that stay would keep the pages of what has gone.
      allocator.compact(lock, StreamId::kDefault);
    }
    if (allocator.set_limit(bytes) > bytes) {
      allocator.set_limit(last_bytes);
      return false;
    }
  }
  last_bytes = bytes;
  return true;
}

const AllocationLog* allocation_log() { return g_allocation_log; }

}  // namespace tidepool::torch_cpu
