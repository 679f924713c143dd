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

void tidepool::torch_glue::delete_block(void* address) {
  torch_cuda::CudaAllocator::installed()->free(address);
}

namespace tidepool::torch_cuda {
namespace {

CudaAllocator* g_allocator = nullptr;

const c10::impl::PyInterpreter* gpu_trace() { return c10::impl::GPUTrace::get_trace(); }

// The deleter of blocks that PyTorch's allocator caches, also while a job has switched caching off.
c10::DeleterFnPtr caching_deleter(CUDAAllocator& native) {
  const bool was_enabled = native.isEnabled();
  native.enable(true);
  const c10::DeleterFnPtr deleter = native.raw_deleter();
  native.enable(was_enabled);
  return deleter;
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
    : ForwardingAllocator(native),
      settings_(settings),
      native_deleter_(caching_deleter(native)),
      devices_(*this, native, settings_) {}

CudaAllocator* CudaAllocator::installed() { return g_allocator; }

void CudaAllocator::install(const Settings& settings) {
  if (g_allocator != nullptr) throw std::runtime_error("Tidepool is attached already");
  CUDAAllocator* native = c10::cuda::CUDACachingAllocator::get();
  if (native == nullptr || native->name() != "native") {
    throw std::runtime_error("PyTorch's CUDA allocator is '" +
                             (native == nullptr ? "none" : native->name()) +
                             "', and only its own, 'native', can be replaced: take backend: out of "
                             "PYTORCH_CUDA_ALLOC_CONF");
  }
  if (std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr) {
    throw std::runtime_error(
        "PYTORCH_NO_CUDA_MEMORY_CACHING asks for no caching allocator: unset it");
  }
  if (settings.rematerialize) {
    torch_glue::install_engines(c10::kCUDA, settings.runtime);
  }
  g_allocator = new CudaAllocator(*native, settings);
  if (native->initialized()) g_allocator->devices_.set_up(c10::cuda::device_count());
  c10::cuda::CUDACachingAllocator::allocator.store(g_allocator);
  // At priority 255 the allocator is not replaced silently by one that PyTorch installs later.
  c10::SetAllocator(c10::kCUDA, g_allocator, 255);
}

void CudaAllocator::init(int device_count) {
  inner().init(device_count);
  devices_.set_up(device_count);
}

// --- Allocating ---------------------------------------------------------------------------------

DataPtr CudaAllocator::allocate(size_t bytes) {
  // What is not cached has a deleter of its own, which holds however it is when it is freed.
  if (!caching_.load(std::memory_order_relaxed)) [[unlikely]]
    return inner().allocate(bytes);
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
  return bytes == 0 ? nullptr : raw_alloc_with_stream(bytes, c10::cuda::getCurrentCUDAStream());
}

void* CudaAllocator::raw_alloc_with_stream(size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return nullptr;
  DeviceIndex device = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
  return allocate_on(device, stream, bytes);
}

void* CudaAllocator::allocate_on(DeviceIndex device, cudaStream_t stream, size_t bytes,
                                 const void* site) {
  CudaDevices::Device& own = devices_.at(device);
  if (own.pools->any()) [[unlikely]] {
    for (size_t n = own.pools->dismiss_captures(); n > 0; --n) devices_.end_capture(device);
    const bool is_jobs = !torch_glue::is_replaying();  // what replays make is always the arena's
    if (is_jobs && own.pools->serves(stream)) return allocate_native(device, stream, bytes);
  }
  if (settings_.native || !caching_.load(std::memory_order_relaxed)) [[unlikely]] {
    return allocate_native(device, stream, bytes);
  }
  DeviceMemory& memory = devices_.memory(device);
  own.pools->settle(memory);
  PlacementHint hint = PlacementHint::kTransient;
  if (memory.engine() != nullptr) {
    prepare_to_allocate(*memory.engine());
    if (site != nullptr) hint = call_sites_.hint_for(site);
  }
  void* address = nullptr;
  try {
    address = memory.allocate(bytes, stream, hint);
  } catch (const OutOfMemory&) {
    address = allocate_at_last(own, memory, stream, bytes, hint);
  }
  if (hint == PlacementHint::kLongLived) [[unlikely]]
    call_sites_.given(site, address);
  if (auto* trace = gpu_trace()) [[unlikely]] {
    (*trace)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<uintptr_t>(address));
  }
  if (c10::memoryProfilingEnabled()) [[unlikely]] {
    tell_profiler(memory, address, static_cast<int64_t>(memory.block_bytes(address)));
  }
  return address;
}

void CudaAllocator::tell_profiler(DeviceMemory& memory, void* address, int64_t bytes) {
  const DeviceStats now = memory.statistics(devices_.at(memory.index()).pools->statistics());
  c10::reportMemoryUsageToProfiler(
      address, bytes, static_cast<size_t>(now.allocated_bytes[0].current),
      static_cast<size_t>(now.reserved_bytes[0].current), c10::Device(c10::kCUDA, memory.index()));
}

void CudaAllocator::prepare_to_allocate(torch_glue::Engine& engine) {
  try {
    torch_glue::notice_thread();
  } catch (const OutOfMemory&) {
    torch_glue::rethrow_as_torch_error(engine);
  }
  if (!engine.chaos_at_allocations()) [[likely]]
    return;
  DeviceLock lock(engine.mutex());
  engine.runtime().chaos_at_allocation();
}

void* CudaAllocator::allocate_native(DeviceIndex device, cudaStream_t stream, size_t bytes) {
  return devices_.at(device).pools->allocate(
      devices_.memory(device), bytes, [&] { return inner().raw_alloc_with_stream(bytes, stream); });
}

void* CudaAllocator::allocate_at_last(CudaDevices::Device& own, DeviceMemory& memory,
                                      cudaStream_t stream, size_t bytes, PlacementHint hint) {
  // Others may hold memory that they do not use: memory that came from other processes, and
  // segments that PyTorch's allocator keeps for its next request.
  memory.count_retry();
  (void)run_free_memory_callbacks();
  if (own.captures == 0) {
    inner().emptyCache({0, 0});
    own.pools->settle(memory);
  }
  try {
    return memory.allocate(bytes, stream, hint);
  } catch (const OutOfMemory& error) {
    if (use_on_oom_) {  // there are pools that their owner lends for this case
      try {
        const auto ask = [&] { return inner().raw_alloc_with_stream(bytes, stream); };
        return own.pools->allocate(memory, bytes, ask, NativePools::Errors::kNotTold);
      } catch (const c10::OutOfMemoryError&) {
        // The error that is thrown below is ours.
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
  CudaDevices::Device& own = devices_.at(memory.index());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(memory.index());
  torch_glue::note_out_of_memory(report);
  memory.count_out_of_memory(report.requested_bytes, stream);
  const size_t native = own.pools->reserved();
  const size_t held = report.committed_bytes + native;
  observers_.tell(memory.index(), report.allocated_bytes, own.device_bytes,
                  own.budget_bytes - std::min(own.budget_bytes, held));
  // The message begins as PyTorch's own: programs that try a smaller batch look for these words.
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ",
                   human_bytes(report.requested_bytes), ". GPU ", int{memory.index()},
                   " has a total capacity of ", human_bytes(own.device_bytes), ", of which ",
                   human_bytes(native), " are held by pools of PyTorch's own allocator, and ",
                   human_bytes(devices_.outside_bytes(memory.index())),
                   " are in use outside of any (context, libraries, other processes).\n",
                   report.format());
}

// --- Freeing ------------------------------------------------------------------------------------

c10::DeleterFnPtr CudaAllocator::raw_deleter() const {
  return caching_.load(std::memory_order_relaxed) ? &delete_block : inner().raw_deleter();
}

void CudaAllocator::raw_delete(void* address) {
  if (DeviceMemory* memory = devices_.memory_of(address)) {
    const std::string misuse = memory->allocator().misuse(address);
    TORCH_CHECK(misuse.empty(), "invalid device pointer: ", address, " (", misuse, ")");
  }
  free(address);
}

void CudaAllocator::free(void* address) {
  if (address == nullptr) return;
  DeviceMemory* memory = devices_.memory_of(address);
  if (memory == nullptr) return inner().raw_delete(address);
  if (auto* trace = gpu_trace()) [[unlikely]] {
    (*trace)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<uintptr_t>(address));
  }
  if (foreign_users_.any() &&
      !foreign_users_.order_before_free(address, memory->stream_of(address), memory->index())) {
    return;  // the block is lost, but it is not used too early
  }
  const bool profiled = c10::memoryProfilingEnabled();
  const size_t bytes = profiled && memory->owns_block(address) ? memory->block_bytes(address) : 0;
  memory->free(address);
  if (profiled) [[unlikely]]
    tell_profiler(*memory, address, -static_cast<int64_t>(bytes));
}

void CudaAllocator::recordStream(const DataPtr& data, CUDAStream stream) {
  void* address = data.get();
  if (address == nullptr) return;
  // Memory from before us belongs to PyTorch's allocator, which ignores blocks of others.
  if (data.get_deleter() != &delete_block) return inner().recordStream(data, stream);
  if (DeviceMemory* memory = devices_.memory_of(address)) {
    if (stream.device_index() == memory->index()) {
      return memory->record_stream(address, stream.stream());
    }
    memory->keep(address);  // the runtime orders streams of one device only
    return foreign_users_.add(address, stream);
  }
  // PyTorch's allocator accepts only blocks with its own deleter.
  DataPtr own(address, address, native_deleter_, data.device());
  inner().recordStream(own, stream);
  own.release_context();
}

// --- Limits -------------------------------------------------------------------------------------

void CudaAllocator::copy_data(void* to, const void* from, std::size_t count) const {
  inner().copy_data(to, from, count);
}

void CudaAllocator::enable(bool value) {
  caching_ = value;
  inner().enable(value);
}

void CudaAllocator::emptyCache(MempoolId_t pool) {
  inner().emptyCache(pool);
  if (pool != MempoolId_t{0, 0}) return;
  devices_.for_each([](CudaDevices::Device& own, DeviceMemory& memory) {
    own.pools->settle(memory);
    if (own.captures == 0) memory.give_back_free_pages();
  });
}

double CudaAllocator::getMemoryFraction(DeviceIndex device) {
  const CudaDevices::Device& own = devices_.at(device);
  return own.memory.load() != nullptr ? own.fraction : inner().getMemoryFraction(device);
}

void CudaAllocator::setMemoryFraction(double fraction, DeviceIndex device) {
  devices_.set_fraction(device, fraction);
}

void CudaAllocator::cacheInfo(DeviceIndex device, size_t* largest) {
  inner().cacheInfo(device, largest);
  *largest = std::max(*largest, devices_.memory(device).largest_free_block());
}

void* CudaAllocator::getBaseAllocation(void* address, size_t* bytes) {
  DeviceMemory* memory = devices_.memory_of(address);
  if (memory == nullptr) return inner().getBaseAllocation(address, bytes);
  TORCH_CHECK(memory->owns_block(address), "invalid device pointer: ", address);
  if (bytes != nullptr) *bytes = memory->block_bytes(address);
  return address;
}

// --- Statistics and histories -------------------------------------------------------------------

DeviceStats CudaAllocator::getDeviceStats(DeviceIndex device) {
  const DeviceStats native = devices_.at(device).pools->statistics();
  DeviceMemory* memory = devices_.at(device).memory.load();
  return memory != nullptr ? memory->statistics(native) : native;
}

void CudaAllocator::resetAccumulatedStats(DeviceIndex device) {
  inner().resetAccumulatedStats(device);
  devices_.at(device).pools->reset_tried();
  if (DeviceMemory* memory = devices_.at(device).memory.load()) memory->reset_accumulated();
}

void CudaAllocator::resetPeakStats(DeviceIndex device) {
  inner().resetPeakStats(device);
  DeviceMemory* memory = devices_.at(device).memory.load();
  if (memory == nullptr) return;
  memory->set_native(devices_.at(device).pools->statistics());
  memory->reset_peaks();
}

SnapshotInfo CudaAllocator::snapshot(MempoolId_t pool, bool traces) {
  SnapshotInfo all = inner().snapshot(pool, traces);
  if (pool != MempoolId_t{0, 0}) return all;
  devices_.add_to(all, traces);
  return all;
}

void CudaAllocator::recordHistory(bool enabled, CreateContextFn recorder, size_t most_entries,
                                  RecordContext when, bool clear,
                                  const std::vector<std::string>& skipped) {
  inner().recordHistory(enabled, recorder, most_entries, when, clear, skipped);
  devices_.record_history({enabled, recorder, most_entries, when, clear, skipped});
}

void CudaAllocator::pushCompileContext(std::string& name) {
  inner().pushCompileContext(name);
  MemoryHistory::enter_region(name);
}

void CudaAllocator::popCompileContext() {
  inner().popCompileContext();
  MemoryHistory::leave_region();
}

void CudaAllocator::attachOutOfMemoryObserver(OutOfMemoryObserver observer) {
  observers_.attach(inner(), std::move(observer));
}

void CudaAllocator::attachAllocatorTraceTracker(AllocatorTraceTracker tracker) {
  inner().attachAllocatorTraceTracker(tracker);
  devices_.add_tracker(tracker);
}

#ifdef TIDEPOOL_INTERFACE_HAS_getContextForPointer
std::shared_ptr<c10::GatheredContext> CudaAllocator::getContextForPointer(const void* address) {
  DeviceMemory* memory = devices_.memory_of(address);
  return memory != nullptr ? memory->context_of(address) : inner().getContextForPointer(address);
}
#endif

#ifdef TIDEPOOL_INTERFACE_HAS_annotateMemory
void CudaAllocator::annotateMemory(const void* address, const std::string& words) {
  DeviceMemory* memory = devices_.memory_of(address);
  if (memory != nullptr && memory->add_words(TraceEntry::ANNOTATE, address, words)) return;
  inner().annotateMemory(address, words);
}
#endif

// --- Pools and captures -------------------------------------------------------------------------

// Restores all that is evicted, and waits for work of ours that the job does not know of. A graph
// runs later on the addresses that it was captured with, and during a capture no stream can be made
// to wait for another.
void CudaAllocator::restore_before_capture(DeviceIndex device) {
  DeviceMemory* const found = devices_.at(device).memory.load();
  if (found == nullptr || found->engine() == nullptr) return;
  DeviceMemory& memory = *found;
  torch_glue::Engine* engine = memory.engine();
  bool working = false;
  try {
    working = engine->restore_everything();
  } catch (const OutOfMemory& error) {
    raise_out_of_memory(memory, error.report());
  }
  if (working) memory.synchronize();
}

#ifdef TIDEPOOL_INTERFACE_HAS_markCaptureBegin
void CudaAllocator::markCaptureBegin(DeviceIndex device) {
  devices_.begin_capture(device);
  try {
    inner().markCaptureBegin(device);
  } catch (...) {
    devices_.end_capture(device);
    throw;
  }
}

void CudaAllocator::markCaptureEnd(DeviceIndex device) {
  devices_.end_capture(device);
  inner().markCaptureEnd(device);
}
#endif

void CudaAllocator::beginAllocateToPool(DeviceIndex device, MempoolId_t pool, StreamFilter filter) {
  restore_before_capture(device);  // the pool may be for a capture, which has started by now
#ifdef TIDEPOOL_INTERFACE_HAS_markCaptureBegin
  inner().beginAllocateToPool(device, pool, filter);
  devices_.at(device).pools->begin(pool, std::move(filter));
#else
  devices_.begin_capture(device);  // the pool may be for a capture
  try {
    inner().beginAllocateToPool(device, pool, filter);
  } catch (...) {
    devices_.end_capture(device);
    throw;
  }
  devices_.at(device).pools->begin(pool, std::move(filter),
                                   c10::cuda::getCurrentCUDAStream(device));
#endif
}

void CudaAllocator::endAllocateToPool(DeviceIndex device, MempoolId_t pool) {
  if (devices_.at(device).pools->end(pool)) devices_.end_capture(device);
  inner().endAllocateToPool(device, pool);
}

void CudaAllocator::setUseOnOOM(DeviceIndex device, MempoolId_t pool, bool use) {
  if (use) use_on_oom_ = true;
  inner().setUseOnOOM(device, pool, use);
}

c10::cuda::CUDACachingAllocator::CheckpointDelta CudaAllocator::setCheckpointPoolState(
    DeviceIndex device, std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> state) {
  auto delta = inner().setCheckpointPoolState(device, std::move(state));
  // The caller expects the deleter that raw_deleter() returns.
  for (DataPtr& data : delta.dataptrs_allocd) {
    (void)data.compare_exchange_deleter(native_deleter_, &delete_block);
  }
  return delta;
}

// --- Other devices and processes ----------------------------------------------------------------

ShareableHandle CudaAllocator::shareIpcHandle(void* address) {
  TORCH_CHECK(devices_.memory_of(address) == nullptr,
              "This memory cannot be shared with other processes: its address was taken below "
              "Python. Share a tensor by torch.multiprocessing instead, which moves it first.");
  return inner().shareIpcHandle(address);
}

void CudaAllocator::make_shareable(c10::StorageImpl* storage) {
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  DeviceMemory* memory = devices_.memory_of(data.get());
  if (memory == nullptr) return;
  c10::cuda::CUDAGuard guard(memory->index());
  auto stream = c10::cuda::getCurrentCUDAStream(memory->index());
  const size_t bytes = storage->nbytes();
  memory->keep(data.get());  // making room for its new place must not evict the block
  void* address = allocate_native(memory->index(), stream, bytes);
  DataPtr moved(address, address, &delete_block, data.device());
  // After this, the stream that wrote the contents last has done so.
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  C10_CUDA_CHECK(cudaMemcpyAsync(address, data.get(), bytes, cudaMemcpyDeviceToDevice, stream));
  C10_CUDA_CHECK(cudaStreamSynchronize(stream));
  (void)storage->set_data_ptr(std::move(moved));
}

void CudaAllocator::enablePeerAccess(DeviceIndex device, DeviceIndex accessed) {
  inner().enablePeerAccess(device, accessed);
  devices_.add_peer({.owner = accessed, .accessor = device});
}

cudaError_t CudaAllocator::memcpyAsync(void* to, int to_device, const void* from, int from_device,
                                       size_t bytes, cudaStream_t stream, bool peer_access) {
  const bool ours = devices_.memory_of(to) != nullptr || devices_.memory_of(from) != nullptr;
  if (!ours) {
    return inner().memcpyAsync(to, to_device, from, from_device, bytes, stream, peer_access);
  }
  // Without peer access only the call that names both devices can copy virtual memory.
  if (peer_access || to_device == from_device) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  }
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream);
}

}  // namespace tidepool::torch_cuda
