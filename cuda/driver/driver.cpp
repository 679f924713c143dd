#include "cuda/driver/driver.h"

#include <fmt/format.h>

namespace tidepool::device {

namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

Driver::Driver(const DriverFunctions& functions, int ordinal)
    : functions_(functions), ordinal_(ordinal) {
  if (!functions_.missing.empty()) {
    throw DeviceError("the CUDA driver lacks " + joined(functions_.missing));
  }
  check(functions_.DeviceGet(&device_, ordinal), "cuDeviceGet");
  has_virtual_memory_ =
      functions_.missing_virtual.empty() && attribute(driver::kVirtualMemorySupported) != 0;
}

Driver::~Driver() {
  if (context_ != nullptr) (void)functions_.DevicePrimaryCtxRelease(device_);
}

int Driver::attribute(int attribute) const {
  int value = 0;
  check(functions_.DeviceGetAttribute(&value, attribute, device_), "cuDeviceGetAttribute");
  return value;
}

size_t Driver::free_bytes() try {
  Scope scope(*this);
  size_t free = 0;
  size_t total = 0;
  check(functions_.MemGetInfo(&free, &total), "cuMemGetInfo");
  return free;
} catch (const DeviceError&) {
  return SIZE_MAX;
}

DeviceError Driver::error(driver::Result result, const std::string& what) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (functions_.GetErrorName(result, &name) != driver::kSuccess || name == nullptr) {
    name = "error of an unknown name";
  }
  if (functions_.GetErrorString(result, &text) != driver::kSuccess || text == nullptr) text = "";
  return DeviceError(fmt::format("{}, device {}: {} ({}), {}", what, ordinal_, name, result, text));
}

driver::Context Driver::context() {
  const MutexLock lock(mutex_);
  if (context_ == nullptr) {
    check(functions_.DevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
  }
  return context_;
}

Driver::Scope::Scope(Driver& driver) : driver_(driver) {
  driver.check(driver.functions_.CtxPushCurrent(driver.context()), "cuCtxPushCurrent");
}

Driver::Scope::~Scope() {
  driver::Context left = nullptr;
  (void)driver_.functions_.CtxPopCurrent(&left);
}

}  // namespace tidepool::device
