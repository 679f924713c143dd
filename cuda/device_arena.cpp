#include "cuda/device_arena.h"

#include <algorithm>

#include "cuda/space/malloc_space.h"
#include "cuda/space/virtual_memory_space.h"
#include "cuda/streams/side_stream_copies.h"

namespace tidepool::device {
namespace {

std::unique_ptr<AddressSpace> make_space(Driver& driver) {
  if (driver.has_virtual_memory()) return std::make_unique<VirtualMemorySpace>(driver);
  return std::make_unique<MallocSpace>(driver);
}

AllocatorConfig of_device(AllocatorConfig config, AddressSpace& space) {
  if (!space.has_virtual_memory()) {  // all of the budget is taken at once
    const size_t available = space.available_bytes();
    const size_t left = available - std::min(available, config.device_reserve_bytes);
    config.budget_bytes = std::min(config.budget_bytes, left);
  }
  config.alignment = DeviceArena::kAlignment;
  config.remap_ns_per_page = 52'000;  // an H100's, until some have been measured
  config.measure_remaps = true;
  return config;
}

}  // namespace

DeviceArena::DeviceArena(const DriverFunctions& functions, int ordinal, AllocatorConfig config,
                         AllocatorObserver* observer)
    : driver_(functions, ordinal),
      space_(make_space(driver_)),
      events_(EventPool::make(driver_)),
      order_(driver_, streams_, events_),
      allocator_(*space_, mutex_, of_device(config, *space_)) {
  allocator_.set_stream_order(&order_);
  if (observer != nullptr) allocator_.set_observer(observer);
}

size_t DeviceArena::block_bytes(const void* address) {
  DeviceLock lock(mutex_);
  return allocator_.block_bytes(address);
}

std::unique_ptr<CopyEngine> DeviceArena::make_copy_engine() {
  return std::make_unique<SideStreamCopies>(driver_, streams_, events_);
}

void DeviceArena::add_peer(int ordinal) {
  if (auto* space = dynamic_cast<VirtualMemorySpace*>(space_.get())) space->add_peer(ordinal);
}

void DeviceArena::synchronize() {
  Driver::Scope scope(driver_);
  driver_.check(driver_.call().CtxSynchronize(), "cuCtxSynchronize");
}

}  // namespace tidepool::device
