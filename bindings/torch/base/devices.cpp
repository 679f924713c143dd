#include "bindings/torch/base/devices.h"

namespace tidepool::torch_glue {

namespace detail {
c10::DeviceType g_device_type = c10::DeviceType::CPU;
bool g_installed = false;
}  // namespace detail

constinit DeviceTable<remat::Runtime> g_runtimes;

void manage_devices(c10::DeviceType type) {
  detail::g_device_type = type;
  detail::g_installed = true;
}

}  // namespace tidepool::torch_glue
