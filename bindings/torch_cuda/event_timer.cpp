#include "bindings/torch_cuda/event_timer.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <bit>

namespace tidepool::torch_cuda {

cudaEvent_t EventTimer::take_event() {
  if (!idle_.empty()) {
    const cudaEvent_t event = idle_.back();
    idle_.pop_back();
    return event;
  }
  cudaEvent_t event = nullptr;
  if (cudaEventCreate(&event) != cudaSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  return event;
}

void EventTimer::fetch() {
  while (!pending_.empty()) {
    const Sample sample = pending_.front();
    const cudaError_t state = cudaEventQuery(sample.stop);
    if (state == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return;
    }
    pending_.pop_front();
    float milliseconds = 0;
    if (state == cudaSuccess &&
        cudaEventElapsedTime(&milliseconds, sample.start, sample.stop) == cudaSuccess) {
      Cost& cost = costs_[sample.timing_key];
      const auto ns = std::max<uint64_t>(1, static_cast<uint64_t>(milliseconds * 1e6F));
      cost.least_ns = cost.least_ns == 0 ? ns : std::min(cost.least_ns, ns);
    } else {
      (void)cudaGetLastError();
    }
    idle_.push_back(sample.start);
    idle_.push_back(sample.stop);
  }
}

torch_glue::OperatorTimer::Call EventTimer::begin(const remat::RecordType&, const remat::Record*,
                                                  uint64_t timing_key) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (!pending_.empty()) fetch();
  if (costs_.size() >= kMostKinds) costs_.clear();
  Cost& cost = costs_[timing_key];
  ++cost.calls;
  const bool is_first = cost.calls <= kFirstCalls && cost.samples < kFirstSamples;
  const bool is_sample = is_first || std::has_single_bit(cost.calls);
  if (!is_sample || pending_.size() >= kMostPending) return {timing_key, nullptr};
  const c10::cuda::CUDAGuard device_guard(device_);
  const cudaEvent_t start = take_event();
  if (start == nullptr) return {timing_key, nullptr};
  if (cudaEventRecord(start, c10::cuda::getCurrentCUDAStream(device_)) != cudaSuccess) {
    (void)cudaGetLastError();
    idle_.push_back(start);
    return {timing_key, nullptr};
  }
  return {timing_key, start, allocator_.misses()};
}

uint64_t EventTimer::end(const Call& call, size_t bytes) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (call.start != nullptr && call.misses != allocator_.misses()) {
    idle_.push_back(static_cast<cudaEvent_t>(call.start));
  } else if (call.start != nullptr) {
    const auto start = static_cast<cudaEvent_t>(call.start);
    const c10::cuda::CUDAGuard device_guard(device_);
    const cudaEvent_t stop = take_event();
    if (stop != nullptr &&
        cudaEventRecord(stop, c10::cuda::getCurrentCUDAStream(device_)) == cudaSuccess) {
      ++costs_[call.timing_key].samples;
      pending_.push_back({call.timing_key, start, stop});
    } else {
      (void)cudaGetLastError();
      idle_.push_back(start);
      if (stop != nullptr) idle_.push_back(stop);
    }
  }
  const auto found = costs_.find(call.timing_key);
  if (found != costs_.end() && found->second.least_ns > 0) return found->second.least_ns;
  return kLaunchNs + bytes / kBytesPerNs;
}

}  // namespace tidepool::torch_cuda
