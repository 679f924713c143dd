#include "tests/cuda/fake_driver.h"

#include <algorithm>
#include <cstring>

namespace tidepool::device::test {

namespace {

constexpr driver::Result kInvalidValue = 1;
constexpr driver::Result kInvalidDevice = 101;
constexpr driver::Result kInvalidContext = 201;
constexpr driver::Result kInvalidHandle = 400;
constexpr driver::Result kNotSupported = 801;
constexpr driver::Result kNotFound = 500;
constexpr size_t kSmall = 4096;     // allocations up to here have memory
constexpr size_t kAlignment = 256;  // of allocations

FakeDriver* the_driver = nullptr;

driver::Context context_of(int device) {
  return reinterpret_cast<driver::Context>(static_cast<uintptr_t>(device) + 0x100);
}

}  // namespace

FakeDriver::FakeDriver(int devices) : primary_references_(static_cast<size_t>(devices), 0) {
  the_driver = this;
}
FakeDriver::~FakeDriver() { the_driver = nullptr; }
FakeDriver& FakeDriver::current() { return *the_driver; }

void FakeDriver::fail_at(size_t n, size_t times, const std::string& function) {
  fail_in_ = n;
  fail_times_ = times;
  failing_ = function;
  failed_ = false;
}

size_t FakeDriver::calls(const std::string& function) const {
  size_t count = 0;
  for (const auto& [name, times] : calls_) {
    if (function.empty() || name == function) count += times;
  }
  return count;
}

driver::Result FakeDriver::enter(const char* function) {
  ++calls_[function];
  if (fail_in_ == 0 || (!failing_.empty() && failing_ != function)) return driver::kSuccess;
  if (fail_in_ > 1) {
    --fail_in_;
    return driver::kSuccess;
  }
  if (--fail_times_ == 0) fail_in_ = 0;
  failed_ = true;
  return driver::kOutOfMemory;
}

driver::Stream FakeDriver::add_stream(int device) {
  auto stream = reinterpret_cast<driver::Stream>(uintptr_t{0x10000} + 64 * next_++);
  streams_[stream] = device;
  return stream;
}

int FakeDriver::device_of(driver::Stream stream) const {
  if (stream == nullptr) return current_device();
  auto found = streams_.find(stream);
  return found == streams_.end() ? -1 : found->second;
}

void FakeDriver::finish() {
  for (auto& [key, entry] : queues_) entry.done = entry.given;
}
void FakeDriver::finish(driver::Stream stream, int device) {
  Queue& entry = queue(stream, device);
  entry.done = entry.given;
}
void FakeDriver::launch(driver::Stream stream, int device) { ++queue(stream, device).given; }

void FakeDriver::make_current(int device) {
  context_stack_.clear();
  if (device >= 0) context_stack_.push_back(device);
}
int FakeDriver::current_device() const {
  return context_stack_.empty() ? -1 : context_stack_.back();
}

size_t FakeDriver::handle_bytes() const {
  size_t bytes = 0;
  for (const auto& [id, handle] : handles_) bytes += handle.bytes;
  return bytes;
}

size_t FakeDriver::host_held() const {
  size_t bytes = 0;
  for (const std::vector<char>& memory : host_memory_) bytes += memory.size();
  return bytes;
}

bool FakeDriver::accessible(driver::DevicePointer address, int device) const {
  auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return false;
  const auto& [start, mapping] = *std::prev(after);
  return address < start + mapping.bytes &&
         std::count(mapping.devices.begin(), mapping.devices.end(), device) > 0;
}

bool FakeDriver::has_memory(driver::DevicePointer address) const {
  auto after = memory_.upper_bound(address);
  return after != memory_.begin() &&
         address < std::prev(after)->first + allocations_.at(std::prev(after)->first);
}

void FakeDriver::forget_if_gone(driver::AllocationHandle handle) {
  const Handle& entry = handles_.at(handle);
  if (entry.released && entry.mappings == 0) handles_.erase(handle);
}

// The driver's functions, each named as the driver names it.
struct FakeCalls {
  static FakeDriver& fake() { return *the_driver; }
#define TIDEPOOL_ENTER \
  if (driver::Result refused = fake().enter(__func__)) return refused

  static driver::Result cuGetErrorName(driver::Result result, const char** name) {
    *name = result == driver::kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OTHER";
    return driver::kSuccess;
  }
  static driver::Result cuGetErrorString(driver::Result result, const char** text) {
    *text = result == driver::kOutOfMemory ? "out of memory" : "another error";
    return driver::kSuccess;
  }
  static driver::Result cuDeviceGet(driver::Device* device, int ordinal) {
    TIDEPOOL_ENTER;
    if (ordinal < 0 || static_cast<size_t>(ordinal) >= fake().primary_references_.size()) {
      return kInvalidDevice;
    }
    *device = ordinal;
    return driver::kSuccess;
  }
  static driver::Result cuDeviceGetAttribute(int* value, int attribute, driver::Device) {
    TIDEPOOL_ENTER;
    switch (attribute) {
      case driver::kVirtualMemorySupported:
        *value = fake().virtual_memory;
        break;
      case driver::kFileDescriptorsSupported:
        *value = fake().exports;
        break;
      case driver::kGpuDirectRdmaSupported:
        *value = fake().rdma;
        break;
      default:
        *value = 7;
    }
    return driver::kSuccess;
  }
  static driver::Result cuDevicePrimaryCtxRetain(driver::Context* context, driver::Device device) {
    TIDEPOOL_ENTER;
    ++fake().primary_references_.at(static_cast<size_t>(device));
    *context = context_of(device);
    return driver::kSuccess;
  }
  static driver::Result cuDevicePrimaryCtxRelease(driver::Device device) {
    TIDEPOOL_ENTER;
    --fake().primary_references_.at(static_cast<size_t>(device));
    return driver::kSuccess;
  }
  static driver::Result cuCtxPushCurrent(driver::Context context) {
    TIDEPOOL_ENTER;
    fake().context_stack_.push_back(static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 0x100);
    return driver::kSuccess;
  }
  static driver::Result cuCtxPopCurrent(driver::Context* context) {
    ++fake().calls_["cuCtxPopCurrent"];
    if (fake().context_stack_.empty()) return kInvalidContext;
    *context = context_of(fake().context_stack_.back());
    fake().context_stack_.pop_back();
    return driver::kSuccess;
  }
  static driver::Result cuCtxSynchronize() {
    TIDEPOOL_ENTER;
    if (fake().current_device() < 0) return kInvalidContext;
    for (auto& [key, queue] : fake().queues_) {
      if (key.second == fake().current_device()) queue.done = queue.given;
    }
    return driver::kSuccess;
  }

  static driver::Result cuStreamCreate(driver::Stream* stream, unsigned) {
    TIDEPOOL_ENTER;
    if (fake().current_device() < 0) return kInvalidContext;
    *stream = fake().add_stream(fake().current_device());
    return driver::kSuccess;
  }
  static driver::Result cuStreamDestroy(driver::Stream stream) {
    TIDEPOOL_ENTER;
    return fake().streams_.erase(stream) == 1 ? driver::kSuccess : kInvalidHandle;
  }
  static driver::Result cuStreamSynchronize(driver::Stream stream) {
    TIDEPOOL_ENTER;
    int device = fake().device_of(stream);
    if (device < 0) return kInvalidContext;
    fake().finish(stream, device);
    return driver::kSuccess;
  }
  static driver::Result cuStreamWaitEvent(driver::Stream stream, driver::Event event, unsigned) {
    TIDEPOOL_ENTER;
    int device = fake().device_of(stream);
    if (device < 0 || !fake().events_.contains(event)) return kInvalidHandle;
    fake().waits.push_back({stream, device, event});
    return driver::kSuccess;
  }
  static driver::Result cuEventCreate(driver::Event* event, unsigned flags) {
    TIDEPOOL_ENTER;
    if (fake().current_device() < 0) return kInvalidContext;
    if (flags != driver::kEventDisableTiming) return kInvalidValue;  // we want no timing
    *event = reinterpret_cast<driver::Event>(uintptr_t{0x90000000} + 64 * fake().next_++);
    fake().events_[*event].device = fake().current_device();
    return driver::kSuccess;
  }
  static driver::Result cuEventDestroy(driver::Event event) {
    TIDEPOOL_ENTER;
    return fake().events_.erase(event) == 1 ? driver::kSuccess : kInvalidHandle;
  }
  static driver::Result cuEventRecord(driver::Event event, driver::Stream stream) {
    TIDEPOOL_ENTER;
    auto found = fake().events_.find(event);
    int device = fake().device_of(stream);
    if (found == fake().events_.end() || found->second.device != device) return kInvalidHandle;
    found->second.queue = &fake().queue(stream, device);
    found->second.position = found->second.queue->given;
    fake().recorded_on.push_back(stream);
    fake().recorded_devices.push_back(device);
    return driver::kSuccess;
  }
  static driver::Result cuEventQuery(driver::Event event) {
    TIDEPOOL_ENTER;
    if (fake().current_device() < 0) return kInvalidContext;
    auto found = fake().events_.find(event);
    if (found == fake().events_.end()) return kInvalidHandle;
    const FakeDriver::Event& entry = found->second;
    bool done = entry.queue == nullptr || entry.queue->done >= entry.position;
    return done ? driver::kSuccess : driver::kNotReady;
  }
  static driver::Result cuEventSynchronize(driver::Event event) {
    TIDEPOOL_ENTER;
    if (fake().current_device() < 0) return kInvalidContext;
    auto found = fake().events_.find(event);
    if (found == fake().events_.end()) return kInvalidHandle;
    FakeDriver::Event& entry = found->second;
    if (entry.queue != nullptr) entry.queue->done = std::max(entry.queue->done, entry.position);
    return driver::kSuccess;
  }

  static driver::Result cuMemGetInfo(size_t* free, size_t* total) {
    TIDEPOOL_ENTER;
    if (fake().current_device() < 0) return kInvalidContext;
    *free = *total = fake().memory_bytes;
    return driver::kSuccess;
  }
  static driver::Result cuMemAlloc(driver::DevicePointer* address, size_t bytes) {
    TIDEPOOL_ENTER;
    if (fake().current_device() < 0) return kInvalidContext;
    if (bytes > fake().memory_bytes) return driver::kOutOfMemory;
    *address = fake().next_address_ += size_t{1} << 32;
    *address += kAlignment;  // no better aligned than promised
    if (bytes <= kSmall) {
      std::vector<uint64_t> memory((bytes + kAlignment) / 8 + 1);
      *address = (reinterpret_cast<uintptr_t>(memory.data()) | (kAlignment - 1)) + 1;
      fake().memory_[*address] = std::move(memory);
    }
    fake().allocations_[*address] = bytes;
    return driver::kSuccess;
  }
  static driver::Result cuMemFree(driver::DevicePointer address) {
    TIDEPOOL_ENTER;
    fake().memory_.erase(address);
    return fake().allocations_.erase(address) == 1 ? driver::kSuccess : kInvalidValue;
  }
  static driver::Result cuMemHostAlloc(void** address, size_t bytes, unsigned) {
    TIDEPOOL_ENTER;
    if (fake().current_device() < 0) return kInvalidContext;
    if (bytes > fake().host_bytes - fake().host_held()) return driver::kOutOfMemory;
    std::vector<char> memory(bytes);
    *address = memory.data();
    fake().host_memory_.push_back(std::move(memory));
    return driver::kSuccess;
  }
  static driver::Result cuMemFreeHost(void* address) {
    TIDEPOOL_ENTER;
    return std::erase_if(fake().host_memory_,
                         [&](const auto& memory) { return memory.data() == address; }) == 1
               ? driver::kSuccess
               : kInvalidValue;
  }
  static driver::Result cuMemcpyDtoHAsync(void* to, driver::DevicePointer from, size_t bytes,
                                          driver::Stream stream) {
    TIDEPOOL_ENTER;
    int device = fake().device_of(stream);
    if (device < 0) return kInvalidHandle;
    fake().copies.push_back({reinterpret_cast<uintptr_t>(to), from, bytes, stream});
    if (fake().has_memory(from)) std::memcpy(to, reinterpret_cast<void*>(from), bytes);
    fake().launch(stream, device);
    return driver::kSuccess;
  }
  static driver::Result cuMemcpyHtoDAsync(driver::DevicePointer to, const void* from, size_t bytes,
                                          driver::Stream stream) {
    TIDEPOOL_ENTER;
    int device = fake().device_of(stream);
    if (device < 0) return kInvalidHandle;
    fake().copies.push_back({to, reinterpret_cast<uintptr_t>(from), bytes, stream});
    fake().launch(stream, device);
    return driver::kSuccess;
  }
  static driver::Result cuMemsetD8Async(driver::DevicePointer address, unsigned char value,
                                        size_t bytes, driver::Stream stream) {
    TIDEPOOL_ENTER;
    if (fake().device_of(stream) < 0) return kInvalidContext;
    fake().fills.push_back({address, bytes, value});
    if (fake().has_memory(address)) std::memset(reinterpret_cast<void*>(address), value, bytes);
    return driver::kSuccess;
  }

  static driver::Result cuMemGetAllocationGranularity(
      size_t* bytes, const driver::AllocationProperties* properties, int) {
    TIDEPOOL_ENTER;
    if (properties->type != driver::kAllocationPinned) return kInvalidValue;
    *bytes = fake().granularity;
    return driver::kSuccess;
  }
  static driver::Result cuMemAddressReserve(driver::DevicePointer* address, size_t bytes,
                                            size_t alignment, driver::DevicePointer,
                                            unsigned long long) {
    TIDEPOOL_ENTER;
    if (bytes % fake().granularity != 0) return kInvalidValue;
    alignment = std::max(alignment, fake().granularity);
    *address = (fake().next_address_ + alignment - 1) / alignment * alignment;
    fake().next_address_ = *address + bytes + fake().granularity;
    fake().ranges_[*address] = bytes;
    return driver::kSuccess;
  }
  static driver::Result cuMemAddressFree(driver::DevicePointer address, size_t bytes) {
    TIDEPOOL_ENTER;
    auto range = fake().ranges_.find(address);
    if (range == fake().ranges_.end() || range->second != bytes) return kInvalidValue;
    auto mapping = fake().mappings_.lower_bound(address);
    if (mapping != fake().mappings_.end() && mapping->first < address + bytes) return kInvalidValue;
    fake().ranges_.erase(range);
    return driver::kSuccess;
  }
  static driver::Result cuMemCreate(driver::AllocationHandle* handle, size_t bytes,
                                    const driver::AllocationProperties* properties,
                                    unsigned long long) {
    TIDEPOOL_ENTER;
    if (bytes == 0 || bytes % fake().granularity != 0) return kInvalidValue;
    if (fake().handle_bytes() + bytes > fake().memory_bytes) return driver::kOutOfMemory;
    if (properties->flags.gpu_direct_rdma_capable != 0 && fake().refuses_rdma) return kNotSupported;
    *handle = fake().next_++;
    fake().handles_[*handle] = {bytes, properties->location.id, false, 0};
    return driver::kSuccess;
  }
  static driver::Result cuMemRelease(driver::AllocationHandle handle) {
    TIDEPOOL_ENTER;
    auto found = fake().handles_.find(handle);
    if (found == fake().handles_.end() || found->second.released) return kInvalidValue;
    found->second.released = true;
    fake().forget_if_gone(handle);
    return driver::kSuccess;
  }
  static driver::Result cuMemMap(driver::DevicePointer address, size_t bytes, size_t offset,
                                 driver::AllocationHandle handle, unsigned long long) {
    TIDEPOOL_ENTER;
    auto found = fake().handles_.find(handle);
    if (found == fake().handles_.end() || found->second.released || offset != 0 ||
        found->second.bytes != bytes) {
      return kInvalidValue;
    }
    auto range = fake().ranges_.upper_bound(address);
    if (range == fake().ranges_.begin() || address % fake().granularity != 0) return kInvalidValue;
    --range;
    if (address + bytes > range->first + range->second) return kInvalidValue;
    auto next = fake().mappings_.lower_bound(address);
    if (next != fake().mappings_.end() && next->first < address + bytes) return kInvalidValue;
    if (next != fake().mappings_.begin()) {
      --next;
      if (next->first + next->second.bytes > address) return kInvalidValue;
    }
    fake().mappings_[address] = {bytes, handle, {}};
    ++found->second.mappings;
    return driver::kSuccess;
  }
  // The mappings that tile the run exactly, or none.
  static std::vector<driver::DevicePointer> tiles(driver::DevicePointer address, size_t bytes) {
    std::vector<driver::DevicePointer> found;
    driver::DevicePointer at = address;
    for (auto it = fake().mappings_.find(address);
         it != fake().mappings_.end() && it->first == at && at < address + bytes; ++it) {
      found.push_back(at);
      at += it->second.bytes;
    }
    if (at != address + bytes) found.clear();
    return found;
  }
  static driver::Result cuMemUnmap(driver::DevicePointer address, size_t bytes) {
    TIDEPOOL_ENTER;
    auto found = tiles(address, bytes);
    if (found.empty()) return kInvalidValue;
    for (driver::DevicePointer start : found) {
      driver::AllocationHandle handle = fake().mappings_.at(start).handle;
      fake().mappings_.erase(start);
      --fake().handles_.at(handle).mappings;
      fake().forget_if_gone(handle);
    }
    return driver::kSuccess;
  }
  static driver::Result cuMemSetAccess(driver::DevicePointer address, size_t bytes,
                                       const driver::AccessDescription* access, size_t count) {
    TIDEPOOL_ENTER;
    auto found = tiles(address, bytes);
    if (found.empty() || count == 0) return kInvalidValue;
    for (driver::DevicePointer start : found) {
      for (size_t i = 0; i < count; ++i) {
        if (access[i].flags != driver::kAccessReadWrite) return kInvalidValue;
        fake().mappings_.at(start).devices.push_back(access[i].location.id);
      }
    }
    return driver::kSuccess;
  }
  static driver::Result cuMemExportToShareableHandle(void* file, driver::AllocationHandle handle,
                                                     int, unsigned long long) {
    TIDEPOOL_ENTER;
    if (!fake().handles_.contains(handle)) return kInvalidValue;
    *static_cast<int*>(file) = 1000 + static_cast<int>(handle);
    return driver::kSuccess;
  }

  // A module is its image, a kernel its name.
  static driver::Result cuModuleLoadData(driver::Module* module, const void* image) {
    TIDEPOOL_ENTER;
    if (fake().current_device() < 0) return kInvalidContext;
    *module = static_cast<driver::Module>(const_cast<void*>(image));
    ++fake().modules;
    return driver::kSuccess;
  }
  static driver::Result cuModuleUnload(driver::Module) {
    TIDEPOOL_ENTER;
    --fake().modules;
    return driver::kSuccess;
  }
  static driver::Result cuModuleGetFunction(driver::Function* function, driver::Module,
                                            const char* name) {
    TIDEPOOL_ENTER;
    if (std::string(name).rfind("tidepool_", 0) != 0) return kNotFound;
    *function = reinterpret_cast<driver::Function>(const_cast<char*>(name));
    return driver::kSuccess;
  }
  static driver::Result cuLaunchKernel(driver::Function function, unsigned x, unsigned y,
                                       unsigned z, unsigned threads_x, unsigned threads_y,
                                       unsigned threads_z, unsigned, driver::Stream stream,
                                       void** arguments, void**) {
    TIDEPOOL_ENTER;
    int device = fake().device_of(stream);
    if (device < 0) return kInvalidContext;
    size_t threads = size_t{x} * y * z * threads_x * threads_y * threads_z;
    fake().launch(stream, device);
    if (fake().on_launch) {
      fake().on_launch(reinterpret_cast<const char*>(function), threads, arguments);
    }
    return driver::kSuccess;
  }
#undef TIDEPOOL_ENTER
};

FunctionFinder FakeDriver::finder(std::vector<std::string> absent) const {
  std::map<std::string, void*> all;
#define TIDEPOOL_ADD(name, version, parameters) \
  all["cu" #name] = reinterpret_cast<void*>(&FakeCalls::cu##name);
  TIDEPOOL_DRIVER_FUNCTIONS(TIDEPOOL_ADD)
  TIDEPOOL_VIRTUAL_MEMORY_FUNCTIONS(TIDEPOOL_ADD)
  TIDEPOOL_KERNEL_FUNCTIONS(TIDEPOOL_ADD)
#undef TIDEPOOL_ADD
  for (const std::string& name : absent) all.erase(name);
  return [all](const char* name, unsigned) -> void* {
    auto found = all.find(name);
    return found == all.end() ? nullptr : found->second;
  };
}

}  // namespace tidepool::device::test
