// CopyEngine: the interface to copies between host and device that run beside other work. Only
// fences order a copy: it runs after the fence that it is given, and before the fence that it
// returns passes. Implementations are thread safe. Host memory has to stay until the returned fence
// has passed.
#pragma once

#include <cstddef>
#include <memory>

#include "allocator/streams/fence.h"

namespace tidepool {

class CopyEngine {
 public:
  virtual ~CopyEngine() = default;

  // Copies after the fence `after` has passed; if that is null, at once. The returned fence passes
  // when the bytes have arrived. Throws: DeviceError; then nothing is copied.
  virtual std::shared_ptr<Fence> copy_to_host(void* to, const void* from, size_t bytes,
                                              Fence* after) = 0;
  virtual std::shared_ptr<Fence> copy_to_device(void* to, const void* from, size_t bytes,
                                                Fence* after) = 0;
};

}  // namespace tidepool
