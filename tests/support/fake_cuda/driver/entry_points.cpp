#include "tests/support/fake_cuda/driver/entry_points.h"

#include "tests/support/fake_cuda/driver/abi.h"

namespace tidepool::fake_cuda {

int find_driver_function(const char* name, void** function, int version, unsigned long long flags,
                         int* status) {
  constexpr unsigned long long kOfThreads = 2;
  constexpr int kFound = 0;
  constexpr int kNotFound = 1;
  constexpr int kNotInThisVersion = 2;
  *function = nullptr;
  if (version > driver::kVersion || flags > kOfThreads) {
    return driver::code(Error::kInvalidValue);
  }
  if (flags == kOfThreads) return driver::code(Error::kNotSupported);
  const EntryPoint found = driver_entry_point(name, version);
  *function = found.function;
  if (status) {
    *status = found.function ? kFound : found.is_known ? kNotInThisVersion : kNotFound;
  }
  return driver::code(Error::kSuccess);
}

}  // namespace tidepool::fake_cuda
