#include "tests/support/fake_cuda/core/memory_calls.h"

#include <cstring>

#include "tests/support/fake_cuda/core/machine.h"

namespace tidepool::fake_cuda::calls {
namespace {

uintptr_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }
void* pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

Stream& resolve(Machine& machine, void* stream) {
  return machine.order.stream(stream, current_device());
}

}  // namespace

Error allocate(const char* function, void** address, size_t bytes) {
  return run_unsafe(Call::kMalloc, function, [&](Machine& m) {
    *address = pointer(m.allocations.allocate(current_device(), bytes));
    return Error::kSuccess;
  });
}

// CUDA waits for the whole device.
Error free(const char* function, void* address) {
  return run_unsafe(Call::kFree, function, [&](Machine& m) {
    const int device = m.device_of(address);
    if (device >= 0) m.await_device(device);
    const size_t bytes = m.allocations.free(number(address));
    if (device >= 0) m.order.synchronize_device(device);
    m.returned(number(address), bytes);
    return Error::kSuccess;
  });
}

Error free_in_order(const char* function, void* address, void* stream) {
  return run(Call::kFree, function, [&](Machine& m) {
    Stream& on = resolve(m, stream);
    m.await(on);
    m.allocations.free(number(address));
    m.operate(on, Call::kFree, function);
    return Error::kSuccess;
  });
}

Error allocate_host(const char* function, void** address, size_t bytes) {
  return run_unsafe(Call::kHostAlloc, function, [&](Machine& m) {
    *address = pointer(m.allocations.allocate_host(bytes, m.settings.host_bytes));
    return Error::kSuccess;
  });
}

Error free_host(const char* function, void* address) {
  return run_unsafe(Call::kOther, function, [&](Machine& m) {
    m.allocations.free_host(number(address));
    return Error::kSuccess;
  });
}

Error register_host(const char* function, void* address, size_t bytes) {
  return run_unsafe(Call::kOther, function, [&](Machine& m) {
    m.allocations.register_host(number(address), bytes, m.settings.host_bytes);
    return Error::kSuccess;
  });
}

Error unregister_host(const char* function, void* address) {
  return run_unsafe(Call::kOther, function, [&](Machine& m) {
    m.allocations.unregister_host(number(address));
    return Error::kSuccess;
  });
}

Error memory_info(const char* function, size_t* free_bytes, size_t* total_bytes) {
  return run(Call::kOther, function, [&](Machine& m) {
    const PhysicalMemory& memory = m.memory(current_device());
    *total_bytes = memory.total_bytes();
    *free_bytes = memory.free_bytes();
    return Error::kSuccess;
  });
}

Error pointer_info(const char* function, const void* address, PointerInfo* info) {
  return run(Call::kOther, function, [&](Machine& m) {
    *info = {};
    const uintptr_t at = number(address);
    if (const auto allocation = m.allocations.find(at)) {
      *info = {PointerInfo::Kind::kDevice, allocation->device, allocation->start,
               allocation->bytes};
    } else if (const auto mapping = m.virtual_memory.find(at)) {
      *info = {PointerInfo::Kind::kDevice, mapping->device, mapping->start, mapping->bytes};
    } else if (m.allocations.is_pinned(at)) {
      info->kind = PointerInfo::Kind::kHost;
    }
    return Error::kSuccess;
  });
}

Error copy(const char* function, void* to, const void* from, size_t bytes, void* stream,
           Wait wait) {
  return copy_rows(function, to, bytes, from, bytes, bytes, 1, stream, wait);
}

Error copy_between(const char* function, void* to, int to_device, const void* from, int from_device,
                   size_t bytes, void* stream) {
  return run(Call::kCopy, function, [&](Machine& m) {
    m.copy(to, from, bytes, {to_device, from_device}, resolve(m, stream), function);
    return Error::kSuccess;
  });
}

Error copy_rows(const char* function, void* to, size_t to_pitch, const void* from,
                size_t from_pitch, size_t row_bytes, size_t rows, void* stream, Wait wait) {
  const auto body = [&](Machine& m) {
    Stream& on = resolve(m, stream);
    if (wait == Wait::kYes) m.captures.check_not_capturing(on, function);
    for (size_t row = 0; row < rows && row_bytes != 0; ++row) {
      m.copy(static_cast<char*>(to) + row * to_pitch,
             static_cast<const char*>(from) + row * from_pitch, row_bytes, {on.device, on.device},
             on, function);
    }
    const bool to_pageable = m.device_of(to) < 0 && !m.allocations.is_pinned(number(to));
    if (wait == Wait::kYes || (to_pageable && !m.captures.of(on))) m.synchronize(on);
    return Error::kSuccess;
  };
  return wait == Wait::kYes ? run_unsafe(Call::kCopy, function, body)
                            : run(Call::kCopy, function, body);
}

Error fill(const char* function, void* to, uint32_t value, size_t element_bytes, size_t count,
           void* stream, Wait wait) {
  return run(Call::kFill, function, [&](Machine& m) {
    Stream& on = resolve(m, stream);
    m.fill(to, value, element_bytes, count, on, function);
    if (wait == Wait::kYes) m.synchronize(on);
    return Error::kSuccess;
  });
}

Error share(const char* function, void* address, char* ticket) {
  return run(Call::kOther, function, [&](Machine& m) {
    const std::string text = m.allocations.ticket(number(address));
    std::strncpy(ticket, text.c_str(), 64);
    return Error::kSuccess;
  });
}

Error open_shared(const char* function, void** address, const char* ticket) {
  return run(Call::kOther, function, [&](Machine& m) {
    *address = pointer(m.allocations.open(std::string(ticket, strnlen(ticket, 64))));
    return Error::kSuccess;
  });
}

Error close_shared(const char* function, void* address) {
  return run(Call::kOther, function, [&](Machine& m) {
    m.allocations.close(number(address));
    return Error::kSuccess;
  });
}

}  // namespace tidepool::fake_cuda::calls
