// Serving requests: from the arena, from PyTorch's own allocator, and what is tried before a
// request fails.
#include "bindings/torch_cuda/cuda_allocator.h"

#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "allocator/base/sizes.h"
#include "bindings/torch/base/replaying.h"
#include "bindings/torch/intercept/interception.h"
#include "bindings/torch/plugin/installation.h"
#include "bindings/torch_cuda/cuda_backend.h"

namespace tidepool::torch_glue {

void delete_block(void* address) { torch_cuda::CudaAllocator::installed()->free(address); }

}  // namespace tidepool::torch_glue

namespace tidepool::torch_cuda {
namespace {

CudaAllocator* g_allocator = nullptr;

// What `auto` leaves on the device for contexts, kernels that are loaded late, and libraries: this
// share, but no more than so many bytes.
constexpr size_t kReserveShare = 50;
constexpr size_t kMostReserve = size_t{512} << 20;

const c10::impl::PyInterpreter* gpu_trace() { return c10::impl::GPUTrace::get_trace(); }

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

bool run_free_memory_callbacks() {
  bool freed = false;
  for (const std::string& name : c10::FreeCudaMemoryCallbacksRegistry()->Keys()) {
    freed |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
  }
  return freed;
}

}  // namespace

CudaAllocator::CudaAllocator(CUDAAllocator& native, const Settings& settings)
    : ForwardingAllocator(native), settings_(settings) {}

CudaAllocator* CudaAllocator::installed() { return g_allocator; }

void CudaAllocator::install(const Settings& settings) {
  if (g_allocator != nullptr) throw std::runtime_error("Tidepool is attached already");
  CUDAAllocator* native = c10::cuda::CUDACachingAllocator::get();
  if (native == nullptr || native->name() != "native") {
    throw std::runtime_error("PyTorch's CUDA allocator is '" +
                             (native == nullptr ? "none" : native->name()) +
                             "', and only its own, 'native', can be replaced");
  }
  if (std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr) {
    throw std::runtime_error("PYTORCH_NO_CUDA_MEMORY_CACHING asks for no caching allocator");
  }
  if (settings.rematerialize) {
    torch_glue::install_engines(c10::kCUDA, settings.runtime.recording);
  }
  g_allocator = new CudaAllocator(*native, settings);
  if (native->initialized()) g_allocator->set_up(c10::cuda::device_count());
  c10::cuda::CUDACachingAllocator::allocator.store(g_allocator);
  // Priority 255: nothing that PyTorch installs later replaces us silently.
  c10::SetAllocator(c10::kCUDA, g_allocator, 255);
}

void CudaAllocator::init(int device_count) {
  inner().init(device_count);
  set_up(device_count);
}

void CudaAllocator::set_up(int device_count) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (device_count_ > 0) return;
  TORCH_CHECK(static_cast<size_t>(device_count) <= kDevices, device_count, " CUDA devices");
  for (int device = 0; device < device_count; ++device) {
    slots_[static_cast<size_t>(device)].pools =
        std::make_unique<NativePools>(inner(), static_cast<DeviceIndex>(device));
    const auto reserved =
        inner().getDeviceStats(static_cast<DeviceIndex>(device)).reserved_bytes[0].current;
    slots_[static_cast<size_t>(device)].pools->set_reserved(static_cast<size_t>(reserved));
  }
  inner().attachAllocatorTraceTracker([this](const TraceEntry& entry) {
    slots_[static_cast<size_t>(entry.device_)].pools->note(entry);
  });
  device_count_ = device_count;
}

CudaAllocator::Slot& CudaAllocator::slot(DeviceIndex device) {
  TORCH_CHECK(device >= 0 && device < device_count_, "Invalid device argument ", int{device},
              ": did you call init?");
  return slots_[static_cast<size_t>(device)];
}

DeviceMemory& CudaAllocator::memory(DeviceIndex device) {
  Slot& slot = this->slot(device);
  DeviceMemory* memory = slot.memory.load(std::memory_order_acquire);
  return memory != nullptr ? *memory : make_memory(slot, device);
}

DeviceMemory& CudaAllocator::make_memory(Slot& slot, DeviceIndex device) {
  std::lock_guard<std::mutex> guard(slot.mutex);
  if (DeviceMemory* memory = slot.memory.load()) return *memory;
  c10::cuda::CUDAGuard device_guard(device);
  size_t free_bytes = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &slot.device_bytes));
  AllocatorConfig config = settings_.allocator;
  if (settings_.budget_auto) {
    config.budget_bytes = slot.device_bytes;
    config.device_reserve_bytes = std::min(kMostReserve, slot.device_bytes / kReserveShare);
  } else if (config.budget_bytes == 0) {
    config.budget_bytes =
        static_cast<size_t>(settings_.budget_share * static_cast<double>(slot.device_bytes));
  }
  // More than the device has would only move the error from us to the driver.
  config.budget_bytes = std::min(config.budget_bytes, slot.device_bytes);
  {
    std::lock_guard<std::mutex> functions_guard(mutex_);
    if (functions_.cuDeviceGet == nullptr) {
      functions_ = device::find_driver_functions(&find_driver_function);
    }
  }
  config.coarse_placement = !settings_.rematerialize;  // then hardly a page has to move
  auto* memory = new DeviceMemory(device, functions_, config);
  if (settings_.rematerialize) {
    auto engine = std::make_unique<torch_glue::Engine>(
        c10::Device(c10::kCUDA, device), memory->allocator(),
        std::make_unique<CudaBackend>(*this, *memory), settings_.runtime);
    memory->set_engine(engine.get());
    torch_glue::add_engine(std::move(engine));
  }
  slot.budget_bytes = config.budget_bytes;
  slot.outside_at_start = outside_bytes(device);
  slot.pools->set_limit(config.budget_bytes, slot.device_bytes);
  slot.pools->settle(*memory);
  memory->set_native(inner().getDeviceStats(device));
  memory->reset_peaks();
  {
    std::lock_guard<std::mutex> settings_guard(mutex_);
    if (history_.enabled) memory->configure_history(history_);
    for (const AllocatorTraceTracker& tracker : trackers_) memory->add_tracker(tracker);
    for (const Peers& peers : peers_) {
      if (peers.owner == device) memory->add_peer(peers.accessor);
    }
  }
  for (int i = 0; i < slot.captures; ++i) {
    memory->allocator().suspend_stream_order();
    if (memory->engine() != nullptr) memory->engine()->begin_capture();
  }
  slot.memory.store(memory, std::memory_order_release);
  return *memory;
}

DeviceMemory* CudaAllocator::memory_of(const void* address) const {
  const int count = device_count_.load(std::memory_order_acquire);
  for (int device = 0; device < count; ++device) {
    DeviceMemory* memory =
        slots_[static_cast<size_t>(device)].memory.load(std::memory_order_acquire);
    if (memory != nullptr && memory->contains(address)) return memory;
  }
  return nullptr;
}

// --- Allocating ---------------------------------------------------------------------------------

DataPtr CudaAllocator::allocate(size_t bytes) {
  DeviceIndex device = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
  void* address = nullptr;
  if (bytes != 0) {
    address = allocate_on(device, c10::cuda::getCurrentCUDAStream(device), bytes,
                          __builtin_return_address(0));
  }
  return {address, address, &delete_block, c10::Device(c10::kCUDA, device)};
}

void* CudaAllocator::raw_alloc(size_t bytes) {
  if (bytes == 0) return nullptr;
  DeviceIndex device = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
  return allocate_on(device, c10::cuda::getCurrentCUDAStream(device), bytes);
}

void* CudaAllocator::raw_alloc_with_stream(size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return nullptr;
  DeviceIndex device = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
  return allocate_on(device, stream, bytes);
}

void* CudaAllocator::allocate_on(DeviceIndex device, cudaStream_t stream, size_t bytes,
                                 const void* site) {
  Slot& slot = this->slot(device);
  if (slot.pools->any()) [[unlikely]] {
    for (size_t n = slot.pools->dismiss_captures(); n > 0; --n) end_capture(device);
    if (slot.pools->serves(stream)) return allocate_native(device, stream, bytes);
  }
  if (settings_.native || !caching_.load(std::memory_order_relaxed)) [[unlikely]] {
    return allocate_native(device, stream, bytes);
  }
  DeviceMemory& memory = this->memory(device);
  slot.pools->settle(memory);
  PlacementHint hint = PlacementHint::kTransient;
  if (memory.engine() != nullptr) {
    prepare_to_allocate(*memory.engine());
    if (site != nullptr) hint = call_sites_.hint_for(site);
  }
  void* address = nullptr;
  try {
    address = memory.allocate(bytes, stream, hint);
  } catch (const OutOfMemory&) {
    address = allocate_at_last(slot, memory, stream, bytes, hint);
  }
  if (hint == PlacementHint::kLongLived) [[unlikely]] call_sites_.given(site, address);
  if (auto* trace = gpu_trace()) [[unlikely]] {
    (*trace)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<uintptr_t>(address));
  }
  if (c10::memoryProfilingEnabled()) [[unlikely]] {
    const DeviceStats now = memory.statistics(inner().getDeviceStats(device));
    c10::reportMemoryUsageToProfiler(address, static_cast<int64_t>(memory.block_bytes(address)),
                                     static_cast<size_t>(now.allocated_bytes[0].current),
                                     static_cast<size_t>(now.reserved_bytes[0].current),
                                     c10::Device(c10::kCUDA, device));
  }
  return address;
}

void CudaAllocator::prepare_to_allocate(torch_glue::Engine& engine) {
  try {
    torch_glue::notice_thread();
  } catch (const OutOfMemory&) {
    torch_glue::rethrow_as_torch_error(engine);
  }
  if (!engine.chaos_at_allocations()) [[likely]] return;
  DeviceLock lock(engine.mutex());
  engine.runtime().chaos_at_allocation();
}

void* CudaAllocator::allocate_native(DeviceIndex device, cudaStream_t stream, size_t bytes) {
  return slot(device).pools->allocate(memory(device), bytes,
                                      [&] { return inner().raw_alloc_with_stream(bytes, stream); });
}

void* CudaAllocator::allocate_at_last(Slot& slot, DeviceMemory& memory, cudaStream_t stream,
                                      size_t bytes, PlacementHint hint) {
  // What others hold for no use of theirs: memory received from other processes, and segments that
  // PyTorch's allocator keeps for its next request.
  memory.count_retry();
  (void)run_free_memory_callbacks();
  if (slot.captures == 0) {
    inner().emptyCache({0, 0});
    slot.pools->settle(memory);
  }
  try {
    return memory.allocate(bytes, stream, hint);
  } catch (const OutOfMemory& error) {
    if (use_on_oom_) {  // pools that their owner lends for this case
      try {
        return allocate_native(memory.index(), stream, bytes);
      } catch (const c10::OutOfMemoryError&) {
        // The error is ours.
      }
    }
    if (torch_glue::is_replaying()) {
      torch_glue::note_out_of_memory(error.report());
      throw;
    }
    OutOfMemoryReport report = error.report();
    if (memory.engine() != nullptr) memory.engine()->find_budget_to_try(report);
    raise_out_of_memory(memory, report);
  }
}

void CudaAllocator::raise_out_of_memory(DeviceMemory& memory, const OutOfMemoryReport& report) {
  Slot& slot = this->slot(memory.index());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(memory.index());
  torch_glue::note_out_of_memory(report);
  memory.count_out_of_memory(report.requested_bytes, stream,
                             memory.history().gather(RecordContext::STATE));
  std::vector<OutOfMemoryObserver> observers;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    observers = observers_;
  }
  const size_t native = slot.pools->reserved();
  const size_t held = report.committed_bytes + native;
  for (const OutOfMemoryObserver& observer : observers) {
    observer(memory.index(), report.allocated_bytes, slot.device_bytes,
             slot.budget_bytes - std::min(slot.budget_bytes, held));
  }
  // It begins as PyTorch's own does: programs that try a smaller batch look for these words.
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ",
                   human_bytes(report.requested_bytes), ". GPU ", int{memory.index()},
                   " has a total capacity of ", human_bytes(slot.device_bytes), ", of which ",
                   human_bytes(native), " are held by pools of PyTorch's own allocator, and ",
                   human_bytes(outside_bytes(memory.index())),
                   " are in use outside of any (context, libraries, other processes).\n",
                   report.format());
}

// --- Freeing ------------------------------------------------------------------------------------

c10::DeleterFnPtr CudaAllocator::raw_deleter() const { return &delete_block; }

void CudaAllocator::raw_delete(void* address) {
  if (DeviceMemory* memory = memory_of(address)) {
    const std::string misuse = memory->allocator().misuse(address);
    TORCH_CHECK(misuse.empty(), "invalid device pointer: ", address, " (", misuse, ")");
  }
  free(address);
}

void CudaAllocator::free(void* address) {
  if (address == nullptr) return;
  DeviceMemory* memory = memory_of(address);
  if (memory == nullptr) return inner().raw_delete(address);
  if (auto* trace = gpu_trace()) [[unlikely]] {
    (*trace)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<uintptr_t>(address));
  }
  if (foreign_users_.any() && !foreign_users_.order_before_free(address, memory->stream_of(address),
                                                                memory->index())) {
    return;  // lost, but never used too early
  }
  const bool profiled = c10::memoryProfilingEnabled();
  const size_t bytes = profiled && memory->owns_block(address) ? memory->block_bytes(address) : 0;
  memory->free(address);
  if (profiled) [[unlikely]] {
    const DeviceStats now = memory->statistics(inner().getDeviceStats(memory->index()));
    c10::reportMemoryUsageToProfiler(address, -static_cast<int64_t>(bytes),
                                     static_cast<size_t>(now.allocated_bytes[0].current),
                                     static_cast<size_t>(now.reserved_bytes[0].current),
                                     c10::Device(c10::kCUDA, memory->index()));
  }
}

void CudaAllocator::recordStream(const DataPtr& data, CUDAStream stream) {
  void* address = data.get();
  // Memory of others, as PyTorch's allocator does: where it came from is for them to know.
  if (address == nullptr || data.get_deleter() != &delete_block) return;
  if (DeviceMemory* memory = memory_of(address)) {
    if (stream.device_index() == memory->index()) {
      return memory->record_stream(address, stream.stream());
    }
    memory->keep(address);  // the runtime orders streams of one device only
    return foreign_users_.add(address, stream);
  }
  // It takes only its own deleter.
  DataPtr own(address, address, inner().raw_deleter(), data.device());
  inner().recordStream(own, stream);
  own.release_context();
}

}  // namespace tidepool::torch_cuda
