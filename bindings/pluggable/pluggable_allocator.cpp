#include "bindings/pluggable/pluggable_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "allocator/base/check.h"
#include "allocator/base/size_text.h"

namespace tidepool::pluggable {
namespace {

constexpr const char* kVariable = "TIDEPOOL_BUDGET";

size_t share(size_t bytes, double fraction) {
  return static_cast<size_t>(static_cast<double>(bytes) * fraction);
}

}  // namespace

PluggableAllocator& PluggableAllocator::instance() {
  static auto* allocator = new PluggableAllocator;
  return *allocator;
}

void PluggableAllocator::set_budget(const std::string& text) {
  (void)parse_size(text, SIZE_MAX);
  const MutexLock lock(mutex_);
  budget_ = text;
}

PluggableAllocator::Device& PluggableAllocator::device(int ordinal) {
  if (ordinal >= 0 && static_cast<size_t>(ordinal) < kDevices) [[likely]] {
    Device* device = devices_[static_cast<size_t>(ordinal)].load(std::memory_order_acquire);
    if (device != nullptr) [[likely]]
      return *device;
  }
  return make_device(ordinal);
}

PluggableAllocator::Device& PluggableAllocator::make_device(int ordinal) {
  const device::DriverLibrary& driver = device::DriverLibrary::instance();
  const int count = driver.device_count();
  if (ordinal < 0 || ordinal >= count || static_cast<size_t>(ordinal) >= kDevices) {
    throw std::invalid_argument(
        fmt::format("device {}: there are {} CUDA devices", ordinal, count));
  }
  const auto index = static_cast<size_t>(ordinal);
  const MutexLock lock(mutex_);
  if (Device* device = devices_[index].load()) return *device;
  const size_t memory_bytes = driver.memory_bytes(ordinal);
  AllocatorConfig config;
  config.budget_bytes = memory_bytes;
  const char* variable = std::getenv(kVariable);
  try {
    if (!budget_.empty()) {
      config.budget_bytes = parse_size(budget_, memory_bytes);
    } else if (variable != nullptr && *variable != '\0' && std::strcmp(variable, "auto") != 0) {
      config.budget_bytes = parse_size(variable, memory_bytes);
    }
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("{}: {}", kVariable, error.what()));
  }
  // More than the device has would only move the error from us to the driver.
  config.budget_bytes = std::min(config.budget_bytes, memory_bytes);
  auto made = std::make_unique<Device>(driver.functions(), ordinal, config);
  if (fractions_[index]) {
    (void)made->arena.allocator().set_limit(share(memory_bytes, *fractions_[index]));
  }
  devices_[index].store(made.get(), std::memory_order_release);
  return *made.release();
}

PluggableAllocator::Device* PluggableAllocator::device_of(const void* address) {
  for (const std::atomic<Device*>& each : devices_) {
    Device* device = each.load(std::memory_order_acquire);
    if (device != nullptr && device->arena.contains(address)) return device;
  }
  return nullptr;
}

void* PluggableAllocator::allocate(size_t bytes, int ordinal, Stream stream) {
  Device& device = this->device(ordinal);
  if (auto pool = device.pools.pool_of(stream)) [[unlikely]] {
    return device.pools.allocate(*pool, bytes, stream);
  }
  return device.arena.allocate(bytes, stream);
}

void PluggableAllocator::free(void* address, size_t bytes, int ordinal, Stream stream) {
  const bool known = ordinal >= 0 && static_cast<size_t>(ordinal) < kDevices;
  Device* device = known ? devices_[static_cast<size_t>(ordinal)].load() : nullptr;
  TIDEPOOL_CHECK(device != nullptr, "%p is freed on device %d, which has allocated nothing",
                 address, ordinal);
  if (device->pools.free(address, bytes, stream)) [[unlikely]]
    return;
  device->arena.free_checked(address, bytes, stream);
}

void PluggableAllocator::record_stream(void* address, Stream user) {
  Device* device = device_of(address);
  TIDEPOOL_CHECK(device != nullptr, "%p, recorded on stream %p, is of no device's range", address,
                 static_cast<void*>(user));
  device->pools.record_stream(address);
  device->arena.record_stream(address, user);
}

size_t PluggableAllocator::block_bytes(const void* address) {
  Device* device = device_of(address);
  if (device == nullptr || !device->arena.owns_block(address)) return 0;
  return device->arena.block_bytes(address);
}

void PluggableAllocator::reset() {
  for (const std::atomic<Device*>& each : devices_) {
    Device* device = each.load(std::memory_order_acquire);
    if (device != nullptr) (void)device->arena.allocator().give_back_free_pages();
  }
}

void PluggableAllocator::set_memory_fraction(double fraction, int ordinal) {
  if (!(fraction >= 0 && fraction <= 1)) {
    throw std::invalid_argument(fmt::format("memory fraction {}: expected 0 to 1", fraction));
  }
  const device::DriverLibrary& driver = device::DriverLibrary::instance();
  if (ordinal < 0 || ordinal >= driver.device_count()) {
    throw std::invalid_argument(fmt::format("memory fraction: there is no device {}", ordinal));
  }
  Device* device = nullptr;
  {
    const MutexLock lock(mutex_);
    fractions_[static_cast<size_t>(ordinal)] = fraction;
    device = devices_[static_cast<size_t>(ordinal)].load();
  }
  if (device == nullptr) return;
  (void)device->arena.allocator().set_limit(share(driver.memory_bytes(ordinal), fraction));
}

size_t PluggableAllocator::statistic(int ordinal, const std::string& name) {
  const AllocatorStatistics all = device(ordinal).arena.allocator().statistics();
  if (name == "budget_bytes") return all.budget_bytes;
  if (name == "requested_bytes") return all.requested_bytes;
  if (name == "allocated_bytes") return all.allocated_bytes;
  if (name == "allocated_peak_bytes") return all.allocated_peak_bytes;
  if (name == "reserved_bytes") return all.reserved_bytes;
  if (name == "reserved_peak_bytes") return all.reserved_peak_bytes;
  if (name == "allocations") return all.allocations;
  if (name == "frees") return all.frees;
  if (name == "out_of_memory") return all.out_of_memory;
  throw std::invalid_argument(fmt::format("no statistic '{}'", name));
}

}  // namespace tidepool::pluggable
