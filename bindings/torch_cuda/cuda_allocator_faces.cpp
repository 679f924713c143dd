// The other faces of PyTorch's allocator: limits, statistics, histories, pools, copies.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/ApproximateClock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bindings/torch/plugin/device_json.h"
#include "bindings/torch_cuda/cuda_allocator.h"
#include "remat/lineage/mutants.h"

namespace tidepool::torch_cuda {

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
  for (int device = 0; device < device_count_; ++device) {
    Slot& slot = slots_[static_cast<size_t>(device)];
    DeviceMemory* memory = slot.memory.load();
    if (memory == nullptr) continue;
    slot.pools->settle(*memory);
    if (slot.captures == 0) memory->allocator().give_back_free_pages();
  }
}

double CudaAllocator::getMemoryFraction(DeviceIndex device) { return slot(device).fraction; }

void CudaAllocator::setMemoryFraction(double fraction, DeviceIndex device) {
  TORCH_CHECK(0 <= fraction && fraction <= 1,
              "Expected a fraction from 0 to 1 of the device's memory, got ", fraction);
  DeviceMemory& memory = this->memory(device);
  Slot& slot = this->slot(device);
  slot.fraction = fraction;
  const auto allowed = static_cast<size_t>(fraction * static_cast<double>(slot.device_bytes));
  slot.pools->set_limit(std::min(slot.budget_bytes, allowed), slot.device_bytes);
  slot.pools->settle(memory);
}

void CudaAllocator::cacheInfo(DeviceIndex device, size_t* largest) {
  inner().cacheInfo(device, largest);
  *largest = std::max(*largest, memory(device).largest_free_block());
}

void* CudaAllocator::getBaseAllocation(void* address, size_t* bytes) {
  DeviceMemory* memory = memory_of(address);
  if (memory == nullptr) return inner().getBaseAllocation(address, bytes);
  TORCH_CHECK(memory->owns_block(address), "invalid device pointer: ", address);
  if (bytes != nullptr) *bytes = memory->block_bytes(address);
  return address;
}

// --- Statistics and histories -------------------------------------------------------------------

DeviceStats CudaAllocator::getDeviceStats(DeviceIndex device) {
  const DeviceStats native = inner().getDeviceStats(device);
  DeviceMemory* memory = slot(device).memory.load();
  return memory != nullptr ? memory->statistics(native) : native;
}

void CudaAllocator::resetAccumulatedStats(DeviceIndex device) {
  inner().resetAccumulatedStats(device);
  if (DeviceMemory* memory = slot(device).memory.load()) memory->reset_accumulated();
}

void CudaAllocator::resetPeakStats(DeviceIndex device) {
  inner().resetPeakStats(device);
  DeviceMemory* memory = slot(device).memory.load();
  if (memory == nullptr) return;
  memory->set_native(inner().getDeviceStats(device));
  memory->reset_peaks();
}

SnapshotInfo CudaAllocator::snapshot(MempoolId_t pool, bool traces) {
  SnapshotInfo all = inner().snapshot(pool, traces);
  if (pool != MempoolId_t{0, 0}) return all;
  static c10::ApproximateClockToUnixTimeConverter clock;
  const auto to_nanoseconds = clock.makeConverter();
  for (int device = 0; device < device_count_; ++device) {
    DeviceMemory* memory = slots_[static_cast<size_t>(device)].memory.load();
    if (memory == nullptr) continue;
    for (auto& segment : memory->segments()) all.segments.push_back(std::move(segment));
    if (!traces) continue;
    if (all.device_traces.size() <= static_cast<size_t>(device)) {
      all.device_traces.resize(static_cast<size_t>(device) + 1);
    }
    auto& entries = all.device_traces[static_cast<size_t>(device)];
    for (TraceEntry& entry : memory->entries()) {
      entry.time_.t_ = to_nanoseconds(entry.time_.approx_t_) / 1000;  // microseconds
      entries.push_back(std::move(entry));
    }
    std::stable_sort(entries.begin(), entries.end(), [](const TraceEntry& a, const TraceEntry& b) {
      return a.time_.t_ < b.time_.t_;
    });
  }
  return all;
}

void CudaAllocator::recordHistory(bool enabled, CreateContextFn recorder, size_t most_entries,
                                  RecordContext when, bool clear,
                                  const std::vector<std::string>& skipped) {
  inner().recordHistory(enabled, recorder, most_entries, when, clear, skipped);
  std::lock_guard<std::mutex> guard(mutex_);
  history_ = {enabled, recorder, most_entries, when, clear, skipped};
  for (int device = 0; device < device_count_; ++device) {
    DeviceMemory* memory = slots_[static_cast<size_t>(device)].memory.load();
    if (memory != nullptr) memory->configure_history(history_);
  }
}

size_t CudaAllocator::outside_bytes(DeviceIndex device) {
  c10::cuda::CUDAGuard guard(device);
  size_t free_bytes = 0;
  size_t total = 0;
  if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  const Slot& slot = this->slot(device);
  const DeviceMemory* memory = slot.memory.load();
  const size_t held =
      slot.pools->reserved() + (memory == nullptr ? 0 : memory->allocator().committed_bytes());
  return total - free_bytes - std::min(total - free_bytes, held);
}

std::string CudaAllocator::statistics_json() {
  nlohmann::json devices = nlohmann::json::object();
  for (int device = 0; device < device_count_; ++device) {
    Slot& slot = slots_[static_cast<size_t>(device)];
    DeviceMemory* memory = slot.memory.load();
    if (memory == nullptr) continue;
    const DeviceStats both =
        memory->statistics(inner().getDeviceStats(static_cast<DeviceIndex>(device)));
    remat::RuntimeStatistics remat;
    plan::BackgroundPlannerStatistics planning;
    if (torch_glue::Engine* engine = memory->engine()) {
      remat = engine->runtime().statistics();
      planning = engine->planning();
    }
    nlohmann::json json =
        torch_glue::device_json(memory->allocator().statistics(), remat, planning);
    json["reserved_bytes"] = both.reserved_bytes[0].current;
    json["reserved_peak_bytes"] = both.reserved_bytes[0].peak;
    json["allocated_bytes"] = both.allocated_bytes[0].current;
    json["allocated_peak_bytes"] = both.allocated_bytes[0].peak;
    json["requested_bytes"] = both.requested_bytes[0].current;
    json["requested_peak_bytes"] = both.requested_bytes[0].peak;
    json["num_ooms"] = both.num_ooms;
    json["native_reserved_bytes"] = slot.pools->reserved();
    json["workspace_bytes"] = workspace_bytes(*memory);
    json["outside_bytes"] = outside_bytes(static_cast<DeviceIndex>(device));
    json["outside_at_start_bytes"] = slot.outside_at_start;
    devices["cuda:" + std::to_string(device)] = std::move(json);
  }
  return devices.dump();
}

void CudaAllocator::attachOutOfMemoryObserver(OutOfMemoryObserver observer) {
  inner().attachOutOfMemoryObserver(observer);
  std::lock_guard<std::mutex> guard(mutex_);
  observers_.push_back(std::move(observer));
}

void CudaAllocator::attachAllocatorTraceTracker(AllocatorTraceTracker tracker) {
  inner().attachAllocatorTraceTracker(tracker);
  std::lock_guard<std::mutex> guard(mutex_);
  for (int device = 0; device < device_count_; ++device) {
    DeviceMemory* memory = slots_[static_cast<size_t>(device)].memory.load();
    if (memory != nullptr) memory->add_tracker(tracker);
  }
  trackers_.push_back(std::move(tracker));
}

#ifdef TIDEPOOL_INTERFACE_HAS_getContextForPointer
std::shared_ptr<c10::GatheredContext> CudaAllocator::getContextForPointer(const void* address) {
  DeviceMemory* memory = memory_of(address);
  return memory != nullptr ? memory->context_of(address) : inner().getContextForPointer(address);
}
#endif

// --- Pools and captures -------------------------------------------------------------------------

// A graph is replayed behind our back, on the addresses that it was captured with. Work of ours
// that the job does not know of has to be over, because no stream can be made to wait any more.
void CudaAllocator::restore_before_capture(DeviceIndex device) {
  DeviceMemory* const found = slot(device).memory.load();
  if (found == nullptr || found->engine() == nullptr) return;
  if (TIDEPOOL_MUTANT(7, restored_in_capture)) return;
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

void CudaAllocator::begin_capture(DeviceIndex device) {
  Slot& slot = this->slot(device);
  std::lock_guard<std::mutex> guard(slot.mutex);
  if (DeviceMemory* memory = slot.memory.load()) {
    if (memory->engine() != nullptr) memory->engine()->begin_capture();
    memory->allocator().suspend_stream_order();
  }
  ++slot.captures;
}

void CudaAllocator::end_capture(DeviceIndex device) {
  Slot& slot = this->slot(device);
  std::lock_guard<std::mutex> guard(slot.mutex);
  --slot.captures;
  if (DeviceMemory* memory = slot.memory.load()) {
    memory->allocator().resume_stream_order();
    if (memory->engine() != nullptr) memory->engine()->end_capture();
  }
}

#ifdef TIDEPOOL_INTERFACE_HAS_markCaptureBegin
void CudaAllocator::markCaptureBegin(DeviceIndex device) {
  begin_capture(device);
  try {
    inner().markCaptureBegin(device);
  } catch (...) {
    end_capture(device);
    throw;
  }
}

void CudaAllocator::markCaptureEnd(DeviceIndex device) {
  end_capture(device);
  inner().markCaptureEnd(device);
}
#endif

void CudaAllocator::beginAllocateToPool(DeviceIndex device, MempoolId_t pool, StreamFilter filter) {
  restore_before_capture(device);  // it may be for one, which has started when we hear of it
#ifdef TIDEPOOL_INTERFACE_HAS_markCaptureBegin
  inner().beginAllocateToPool(device, pool, filter);
  slot(device).pools->begin(pool, std::move(filter));
#else
  begin_capture(device);  // it may be one
  try {
    inner().beginAllocateToPool(device, pool, filter);
  } catch (...) {
    end_capture(device);
    throw;
  }
  slot(device).pools->begin(pool, std::move(filter), c10::cuda::getCurrentCUDAStream(device));
#endif
}

void CudaAllocator::endAllocateToPool(DeviceIndex device, MempoolId_t pool) {
  if (slot(device).pools->end(pool)) end_capture(device);
  inner().endAllocateToPool(device, pool);
}

void CudaAllocator::setUseOnOOM(DeviceIndex device, MempoolId_t pool, bool use) {
  if (use) use_on_oom_ = true;
  inner().setUseOnOOM(device, pool, use);
}

c10::cuda::CUDACachingAllocator::CheckpointDelta CudaAllocator::setCheckpointPoolState(
    DeviceIndex device, std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> state) {
  auto delta = inner().setCheckpointPoolState(device, std::move(state));
  // Whoever gets these expects the deleter that raw_deleter() says.
  for (DataPtr& data : delta.dataptrs_allocd) {
    (void)data.compare_exchange_deleter(inner().raw_deleter(), &delete_block);
  }
  return delta;
}

// --- Other devices and processes ----------------------------------------------------------------

ShareableHandle CudaAllocator::shareIpcHandle(void* address) {
  TORCH_CHECK(memory_of(address) == nullptr,
              "This memory cannot be shared with other processes: its address was taken below "
              "Python. Share a tensor by torch.multiprocessing instead, which moves it first.");
  return inner().shareIpcHandle(address);
}

void CudaAllocator::make_shareable(c10::StorageImpl* storage) {
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  DeviceMemory* memory = memory_of(data.get());
  if (memory == nullptr) return;
  c10::cuda::CUDAGuard guard(memory->index());
  auto stream = c10::cuda::getCurrentCUDAStream(memory->index());
  const size_t bytes = storage->nbytes();
  void* address = allocate_native(memory->index(), stream, bytes);
  DataPtr moved(address, address, &delete_block, data.device());
  // Whatever stream wrote the contents last, it is through.
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  C10_CUDA_CHECK(cudaMemcpyAsync(address, data.get(), bytes, cudaMemcpyDeviceToDevice, stream));
  C10_CUDA_CHECK(cudaStreamSynchronize(stream));
  (void)storage->set_data_ptr(std::move(moved));
}

void CudaAllocator::enablePeerAccess(DeviceIndex device, DeviceIndex accessed) {
  inner().enablePeerAccess(device, accessed);
  Slot& owner = slot(accessed);
  std::lock_guard<std::mutex> guard(owner.mutex);
  {
    std::lock_guard<std::mutex> list_guard(mutex_);
    peers_.push_back({.owner = accessed, .accessor = device});
  }
  if (DeviceMemory* memory = owner.memory.load()) memory->add_peer(device);
}

cudaError_t CudaAllocator::memcpyAsync(void* to, int to_device, const void* from, int from_device,
                                       size_t bytes, cudaStream_t stream, bool peer_access) {
  const bool ours = memory_of(to) != nullptr || memory_of(from) != nullptr;
  if (!ours) {
    return inner().memcpyAsync(to, to_device, from, from_device, bytes, stream, peer_access);
  }
  // Virtual memory without peer access can only be copied by the call that names both devices.
  if (peer_access || to_device == from_device) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  }
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream);
}

}  // namespace tidepool::torch_cuda
