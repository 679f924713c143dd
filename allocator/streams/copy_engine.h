// CopyEngine: the seam to copies between host and device that run beside other work. A copy is
// ordered by fences only: after the one it is given, before the one it returns.
// Implementations are thread safe. Host memory has to stay until the returned fence has passed.
#pragma once

#include <cstddef>
#include <memory>

#include "allocator/streams/fence.h"

namespace tidepool {

class CopyEngine {
 public:
  virtual ~CopyEngine() = default;

  // `after` may be null: the copy need not wait. The fence passes when the bytes have arrived.
  // Throws: DeviceError; then nothing is copied.
  virtual std::shared_ptr<Fence> copy_to_host(void* to, const void* from, size_t bytes,
                                              Fence* after) = 0;
  virtual std::shared_ptr<Fence> copy_to_device(void* to, const void* from, size_t bytes,
                                                Fence* after) = 0;
};

}  // namespace tidepool
