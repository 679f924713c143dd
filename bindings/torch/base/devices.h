// Devices: which kind of device Tidepool manages in this process, and the runtime of each such
// device. What lives on another kind of device is foreign memory. The kind is set while attaching,
// for good.
// Thread safe.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <array>
#include <atomic>

#include "remat/runtime.h"

namespace tidepool::torch_glue {

// The dispatch key of our kernels. No component of PyTorch registers anything there (2.11 to 2.15),
// and it lies below autograd and above the backends.
inline constexpr c10::DispatchKey kInterceptionKey = c10::DispatchKey::CustomRNGKeyId;
inline constexpr c10::DispatchKeySet kBelowInterception =
    c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kInterceptionKey);

// Whether the calling thread has that key, so that its operators are seen.
inline bool is_thread_intercepted() {
  return c10::impl::tls_local_dispatch_key_set().included_.has(kInterceptionKey);
}

namespace detail {
inline constexpr size_t kMostDevices = 64;  // as many as PyTorch has
extern c10::DeviceType g_device_type;
extern bool g_installed;
}  // namespace detail

// Called once, before anything is known of a device of that kind.
void manage_devices(c10::DeviceType type);

inline bool engines_installed() { return detail::g_installed; }
// Whether tensors on the CPU are foreign memory. Scalars among them are copied into records.
inline bool host_is_foreign() { return detail::g_device_type != c10::DeviceType::CPU; }

// A table with an entry for each device that is managed. Entries are added once and stay.
template <class Part>
class DeviceTable {
 public:
  // The device's entry; nullptr if it has none.
  Part* of(c10::Device device) const {
    if (device.type() != detail::g_device_type) return nullptr;
    return parts_[index_of(device)].load(std::memory_order_acquire);
  }
  void add(c10::Device device, Part& part) {
    size_.fetch_add(1, std::memory_order_relaxed);
    parts_[index_of(device)].store(&part, std::memory_order_release);
  }
  size_t size() const { return size_.load(std::memory_order_acquire); }
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const std::atomic<Part*>& slot : parts_) {
      if (Part* part = slot.load(std::memory_order_acquire)) visit(*part);
    }
  }

 private:
  static size_t index_of(c10::Device device) {
    return device.has_index() ? static_cast<size_t>(device.index()) : 0;
  }

  std::array<std::atomic<Part*>, detail::kMostDevices> parts_{};
  std::atomic<size_t> size_{0};
};

inline c10::Device device_of(c10::StorageImpl* storage) {
  return storage->_mutable_data_ptr_no_checks().device();
}

extern DeviceTable<remat::Runtime> g_runtimes;

}  // namespace tidepool::torch_glue
