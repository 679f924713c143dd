#include "cuda/streams/side_stream_copies.h"

#include <algorithm>
#include <limits>

#include "absl/cleanup/cleanup.h"
#include "allocator/base/steady_clock.h"

namespace tidepool::device {
namespace {

constexpr int kProbes = 3;
constexpr double kUnknownNsPerByte = 1.0 / 20;  // 20 GB/s, as 16 lanes of PCIe 4.0 give

}  // namespace

SideStreamCopies::~SideStreamCopies() {
  for (driver::Stream stream : streams_) {
    if (stream == nullptr) continue;
    (void)driver_.call().StreamSynchronize(stream);
    (void)driver_.call().StreamDestroy(stream);
  }
}

void* SideStreamCopies::allocate_host(size_t bytes) {
  Driver::Scope scope(driver_);
  void* address = nullptr;
  const driver::Result result = driver_.call().MemHostAlloc(&address, bytes, 0);
  return result == driver::kSuccess ? address : nullptr;
}

void SideStreamCopies::free_host(void* address) {
  Driver::Scope scope(driver_);
  driver_.check(driver_.call().MemFreeHost(address), "cuMemFreeHost");
}

driver::Stream SideStreamCopies::side(CopyDirection direction) {
  const MutexLock lock(mutex_);
  driver::Stream& stream = streams_[static_cast<size_t>(direction)];
  if (stream == nullptr) {
    Driver::Scope scope(driver_);
    driver_.check(driver_.call().StreamCreate(&stream, driver::kStreamNonBlocking),
                  "cuStreamCreate");
  }
  return stream;
}

void SideStreamCopies::order_after(CopyDirection direction, StreamId stream) {
  const std::shared_ptr<Fence> fence = events_->record(table_.stream_of(stream));
  events_->wait(side(direction), *fence);
}

void SideStreamCopies::wait(CopyDirection direction, Fence& fence) {
  events_->wait(side(direction), fence);
}

void SideStreamCopies::copy(CopyDirection direction, void* to, const void* from, size_t bytes) {
  const driver::Stream stream = side(direction);
  Driver::Scope scope(driver_);
  if (direction == CopyDirection::kOut) {
    const auto device = reinterpret_cast<uintptr_t>(from);
    driver_.check(driver_.call().MemcpyDtoHAsync(to, device, bytes, stream), "cuMemcpyDtoHAsync");
  } else {
    const auto device = reinterpret_cast<uintptr_t>(to);
    driver_.check(driver_.call().MemcpyHtoDAsync(device, from, bytes, stream), "cuMemcpyHtoDAsync");
  }
}

std::shared_ptr<Fence> SideStreamCopies::record(CopyDirection direction) {
  return events_->record(side(direction));
}

double SideStreamCopies::measure_ns_per_byte(CopyDirection direction, size_t bytes) {
  Driver::Scope scope(driver_);
  driver::DevicePointer device = 0;
  if (driver_.call().MemAlloc(&device, bytes) != driver::kSuccess) return kUnknownNsPerByte;
  void* const host = allocate_host(bytes);
  double best = std::numeric_limits<double>::infinity();
  const auto free_both = [&] {
    if (host != nullptr) (void)driver_.call().MemFreeHost(host);
    (void)driver_.call().MemFree(device);  // waits for the device
  };
  const absl::Cleanup at_end(free_both);
  if (host != nullptr) {
    void* const there = reinterpret_cast<void*>(device);
    const bool out = direction == CopyDirection::kOut;
    for (int k = 0; k < kProbes; ++k) {
      const uint64_t start = steady_now_ns();
      copy(direction, out ? host : there, out ? there : host, bytes);
      record(direction)->wait();
      best = std::min(best, static_cast<double>(steady_now_ns() - start));
    }
  }
  return host != nullptr ? best / static_cast<double>(bytes) : kUnknownNsPerByte;
}

}  // namespace tidepool::device
