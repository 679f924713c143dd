#include "bindings/torch_cuda/cuda_devices.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/ApproximateClock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bindings/torch/plugin/device_json.h"
#include "bindings/torch_cuda/cuda_backend.h"
#include "bindings/torch_cuda/memory/workspaces.h"
#include "remat/tier/chained_tier.h"
#include "remat/tier/file_tier.h"
#include "remat/tier/host_tier.h"

namespace tidepool::torch_cuda {
namespace {

void* find_driver_function(const char* name, unsigned version) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  return function;
}

// The budget `auto` leaves one part in kReserveShare of the device, but no more than kMostReserve
// bytes, for contexts, kernels that are loaded late, and libraries.
constexpr size_t kReserveShare = 50;
constexpr size_t kMostReserve = size_t{512} << 20;

// Brings the budget, and what the job has limited it to since, into force.
void apply_limits(CudaDevices::Device& own, DeviceMemory& memory) {
  const auto share = static_cast<size_t>(own.fraction * static_cast<double>(own.device_bytes));
  own.pools->set_limit(std::min({own.budget_bytes, own.most_bytes, share}), own.device_bytes);
  own.pools->settle(memory);
}

std::unique_ptr<remat::Tier> make_tier(DeviceMemory& memory, const Settings& settings) {
  const uint64_t host_bytes = settings.runtime.offload.capacity_bytes;
  if (host_bytes == 0) return nullptr;
  constexpr size_t kProbeBytes = size_t{8} << 20;
  auto host = std::make_unique<remat::HostTier>(memory.make_copy_engine(), host_bytes,
                                                std::min(kProbeBytes, memory.budget_bytes() / 8));
  const torch_glue::OffloadSettings& below = settings.below_host;
  if (below.capacity_bytes == 0) return host;
  return std::make_unique<remat::ChainedTier>(
      std::move(host), std::make_unique<remat::FileTier>(below.folder, below.capacity_bytes));
}

}  // namespace

void CudaDevices::set_up(int device_count) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (device_count_ > 0) return;
  TORCH_CHECK(static_cast<size_t>(device_count) <= kDevices, device_count, " CUDA devices");
  for (int device = 0; device < device_count; ++device) {
    devices_[static_cast<size_t>(device)].pools =
        std::make_unique<NativePools>(native_, static_cast<DeviceIndex>(device));
    const auto reserved =
        native_.getDeviceStats(static_cast<DeviceIndex>(device)).reserved_bytes[0].current;
    devices_[static_cast<size_t>(device)].pools->set_reserved(static_cast<size_t>(reserved));
  }
  native_.attachAllocatorTraceTracker([this](const TraceEntry& entry) {
    devices_[static_cast<size_t>(entry.device_)].pools->note(entry);
  });
  device_count_ = device_count;
}

CudaDevices::Device& CudaDevices::at(DeviceIndex device) {
  TORCH_CHECK(device >= 0 && device < device_count_, "Invalid device argument ", int{device},
              ": did you call init?");
  return devices_[static_cast<size_t>(device)];
}

DeviceMemory& CudaDevices::memory(DeviceIndex device) {
  Device& own = at(device);
  DeviceMemory* memory = own.memory.load(std::memory_order_acquire);
  return memory != nullptr ? *memory : make_memory(own, device);
}

DeviceMemory& CudaDevices::make_memory(Device& own, DeviceIndex device) {
  std::lock_guard<std::mutex> guard(own.mutex);
  if (DeviceMemory* memory = own.memory.load()) return *memory;
  c10::cuda::CUDAGuard device_guard(device);
  size_t free_bytes = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &own.device_bytes));
  AllocatorConfig config = settings_.allocator;
  if (settings_.budget_auto) {
    config.budget_bytes = own.device_bytes;
    config.device_reserve_bytes = std::min(kMostReserve, own.device_bytes / kReserveShare);
  } else if (config.budget_bytes == 0) {
    config.budget_bytes =
        static_cast<size_t>(settings_.budget_share * static_cast<double>(own.device_bytes));
  }
  // With a budget above what the device has, the error would only come from the driver.
  config.budget_bytes = std::min(config.budget_bytes, own.device_bytes);
  {
    std::lock_guard<std::mutex> functions_guard(mutex_);
    if (functions_.DeviceGet == nullptr) {
      functions_ = device::find_driver_functions(&find_driver_function);
    }
  }
  config.placement =
      settings_.rematerialize ? kWithoutNumbers : kCoarsePlacement;  // pages hardly have to move
  auto made = std::make_unique<DeviceMemory>(device, functions_, config);
  apply_requests(*made);  // may throw, and be tried again
  if (settings_.rematerialize) {
    auto engine =
        std::make_unique<torch_glue::Engine>(c10::Device(c10::kCUDA, device), made->allocator(),
                                             std::make_unique<CudaBackend>(allocator_, *made),
                                             settings_.runtime, make_tier(*made, settings_));
    made->set_engine(engine.get());
    torch_glue::add_engine(std::move(engine));
  }
  DeviceMemory* const memory = made.release();
  own.budget_bytes = config.budget_bytes;
  own.outside_at_start = outside_bytes(device);
  // What the job's settings, or a call before we were attached, have limited it to.
  own.fraction = native_.getMemoryFraction(device);
  apply_limits(own, *memory);
  memory->set_native(own.pools->statistics());
  memory->reset_peaks();
  for (int i = 0; i < own.captures; ++i) {
    memory->allocator().suspend_stream_order();
    if (memory->engine() != nullptr) memory->engine()->begin_capture();
  }
  own.memory.store(memory, std::memory_order_release);
  return *memory;
}

DeviceMemory* CudaDevices::memory_of(const void* address) const {
  const int count = device_count_.load(std::memory_order_acquire);
  for (int device = 0; device < count; ++device) {
    DeviceMemory* memory =
        devices_[static_cast<size_t>(device)].memory.load(std::memory_order_acquire);
    if (memory != nullptr && memory->contains(address)) return memory;
  }
  return nullptr;
}

size_t CudaDevices::outside_bytes(DeviceIndex device) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) {  // a forked child has none
    (void)cudaGetLastError();
    return 0;
  }
  c10::cuda::CUDAGuard guard(device);
  size_t free_bytes = 0;
  size_t total = 0;
  if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  const Device& own = at(device);
  const DeviceMemory* memory = own.memory.load();
  const size_t held =
      own.pools->reserved() + (memory == nullptr ? 0 : memory->allocator().committed_bytes());
  return total - free_bytes - std::min(total - free_bytes, held);
}

bool CudaDevices::set_limit(size_t bytes) {
  struct Before {
    Device* own;
    DeviceMemory* memory;
    size_t most_bytes;
  };
  std::vector<Before> done;
  bool fits = true;
  for_each([&](Device& own, DeviceMemory& memory) {
    if (own.captures > 0) throw std::runtime_error("a graph is being captured");
    done.push_back({&own, &memory, own.most_bytes});
  });
  if (done.empty()) throw std::runtime_error("no memory of a device has been asked for yet");
  const auto limit = [](const Before& device, size_t most) {
    {
      std::lock_guard<std::mutex> guard(device.own->mutex);
      device.own->most_bytes = most;
      apply_limits(*device.own, *device.memory);
    }
    const size_t held =
        device.memory->allocator().committed_bytes() + device.own->pools->reserved();
    return held <= std::min(device.own->budget_bytes, most);
  };
  for (const Before& device : done) {
    if (limit(device, bytes)) continue;
    const size_t held =
        device.memory->allocator().committed_bytes() + device.own->pools->reserved();
    try {  // The policy chooses what goes. One page more, as the block may begin and end within
           // some.
      const size_t whole = held - std::min(held, bytes) + device.memory->allocator().page_bytes();
      device.memory->free(device.memory->allocate(whole, nullptr, PlacementHint::kTransient));
    } catch (const OutOfMemory&) {
      // What stays lies in between: all the rest goes.
    }
    if (limit(device, bytes)) continue;
    if (torch_glue::Engine* engine = device.memory->engine()) {
      DeviceLock lock(engine->mutex());
      engine->runtime().evict_everything();
    }
    fits = fits && limit(device, bytes);
  }
  if (fits) return true;
  for (const Before& device : done) limit(device, device.most_bytes);
  return false;
}

std::string CudaDevices::statistics_json() {
  nlohmann::json devices = nlohmann::json::object();
  for_each([&](Device& own, DeviceMemory& memory) {
    const DeviceStats both = memory.statistics(own.pools->statistics());
    remat::RuntimeStatistics remat;
    remat::BackgroundPlannerStatistics planning;
    if (torch_glue::Engine* engine = memory.engine()) {
      remat = engine->runtime().statistics();
      planning = engine->planning();
    }
    nlohmann::json json = torch_glue::device_json(memory.allocator().statistics(), remat, planning);
    json["reserved_bytes"] = both.reserved_bytes[0].current;
    json["reserved_peak_bytes"] = both.reserved_bytes[0].peak;
    json["allocated_bytes"] = both.allocated_bytes[0].current;
    json["allocated_peak_bytes"] = both.allocated_bytes[0].peak;
    json["requested_bytes"] = both.requested_bytes[0].current;
    json["requested_peak_bytes"] = both.requested_bytes[0].peak;
    json["num_ooms"] = both.num_ooms;
    json["native_reserved_bytes"] = own.pools->reserved();
    json["workspace_bytes"] = workspace_bytes(memory);
    json["outside_bytes"] = outside_bytes(memory.index());
    json["outside_at_start_bytes"] = own.outside_at_start;
    devices["cuda:" + std::to_string(memory.index())] = std::move(json);
  });
  return devices.dump();
}

void CudaDevices::set_fraction(DeviceIndex device, double fraction) {
  TORCH_CHECK(0 <= fraction && fraction <= 1,
              "Expected a fraction from 0 to 1 of the device's memory, got ", fraction);
  DeviceMemory& made = memory(device);
  Device& own = at(device);
  std::lock_guard<std::mutex> guard(own.mutex);
  own.fraction = fraction;
  apply_limits(own, made);
}

void CudaDevices::add_to(SnapshotInfo& all, bool traces) {
  static c10::ApproximateClockToUnixTimeConverter clock;
  const auto to_nanoseconds = clock.makeConverter();
  for_each([&](Device&, DeviceMemory& memory) {
    for (auto& segment : memory.segments()) all.segments.push_back(std::move(segment));
    if (!traces) return;
    const auto device = static_cast<size_t>(memory.index());
    if (all.device_traces.size() <= device) all.device_traces.resize(device + 1);
    auto& entries = all.device_traces[device];
    for (TraceEntry& entry : memory.entries()) {
      entry.time_.t_ = to_nanoseconds(entry.time_.approx_t_) / 1000;  // microseconds
      entries.push_back(std::move(entry));
    }
    std::stable_sort(entries.begin(), entries.end(), [](const TraceEntry& a, const TraceEntry& b) {
      return a.time_.t_ < b.time_.t_;
    });
  });
}

void CudaDevices::begin_capture(DeviceIndex device) {
  Device& own = at(device);
  std::lock_guard<std::mutex> guard(own.mutex);
  if (DeviceMemory* memory = own.memory.load()) {
    if (memory->engine() != nullptr) memory->engine()->begin_capture();
    memory->allocator().suspend_stream_order();
  }
  ++own.captures;
}

void CudaDevices::end_capture(DeviceIndex device) {
  Device& own = at(device);
  std::lock_guard<std::mutex> guard(own.mutex);
  --own.captures;
  if (DeviceMemory* memory = own.memory.load()) {
    memory->allocator().resume_stream_order();
    if (memory->engine() != nullptr) memory->engine()->end_capture();
  }
}

void CudaDevices::apply_requests(DeviceMemory& memory) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (history_.enabled) memory.configure_history(history_);
  for (const AllocatorTraceTracker& tracker : trackers_) memory.add_tracker(tracker);
  for (const Peers& peers : peers_) {
    if (peers.owner == memory.index()) memory.add_peer(peers.accessor);
  }
}

void CudaDevices::record_history(const MemoryHistory::Options& options) {
  std::lock_guard<std::mutex> guard(mutex_);
  history_ = options;
  for_each([&](Device&, DeviceMemory& memory) { memory.configure_history(history_); });
}

void CudaDevices::add_tracker(const AllocatorTraceTracker& tracker) {
  std::lock_guard<std::mutex> guard(mutex_);
  for_each([&](Device&, DeviceMemory& memory) { memory.add_tracker(tracker); });
  trackers_.push_back(tracker);
}

void CudaDevices::add_peer(const Peers& peers) {
  Device& owner = at(peers.owner);
  std::lock_guard<std::mutex> guard(owner.mutex);
  {
    std::lock_guard<std::mutex> list_guard(mutex_);
    peers_.push_back(peers);
  }
  if (DeviceMemory* memory = owner.memory.load()) memory->add_peer(peers.accessor);
}

}  // namespace tidepool::torch_cuda
