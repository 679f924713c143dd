// Memory calls: allocation, copies and fills as the driver and the runtime both have them.
// `function` is the name under which a misuse is noted. Thread safe; each returns what CUDA would.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/support/fake_cuda/core/error.h"

namespace tidepool::fake_cuda::calls {

// Whether the host waits until a copy or a fill is done.
enum class Wait : bool { kNo, kYes };

Error allocate(const char* function, void** address, size_t bytes);
Error free(const char* function, void* address);
// In the order of a stream: no other work waits.
Error free_in_order(const char* function, void* address, void* stream);
Error allocate_host(const char* function, void** address, size_t bytes);
Error free_host(const char* function, void* address);
Error register_host(const char* function, void* address, size_t bytes);
Error unregister_host(const char* function, void* address);
Error memory_info(const char* function, size_t* free_bytes, size_t* total_bytes);

struct PointerInfo {
  enum class Kind : uint8_t { kUnknown, kHost, kDevice } kind = Kind::kUnknown;
  int device = -1;
  uintptr_t start = 0;  // of the allocation or mapping, for device memory
  size_t bytes = 0;
};
Error pointer_info(const char* function, const void* address, PointerInfo* info);

// Copying back to pageable memory waits in any case, as CUDA does.
Error copy(const char* function, void* to, const void* from, size_t bytes, void* stream, Wait wait);
// Each operand is reached by its own device, whether or not the other one has access to it.
Error copy_between(const char* function, void* to, int to_device, const void* from, int from_device,
                   size_t bytes, void* stream);
Error copy_rows(const char* function, void* to, size_t to_pitch, const void* from,
                size_t from_pitch, size_t row_bytes, size_t rows, void* stream, Wait wait);
Error fill(const char* function, void* to, uint32_t value, size_t element_bytes, size_t count,
           void* stream, Wait wait);

// Text by which another process opens an allocation; `ticket` has room for 64 characters.
Error share(const char* function, void* address, char* ticket);
Error open_shared(const char* function, void** address, const char* ticket);
Error close_shared(const char* function, void* address);

}  // namespace tidepool::fake_cuda::calls
