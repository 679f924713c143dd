// The C functions by which tests load and steer the value kernels, from Python by ctypes
// (tests/support/value_kernels.py). Thread safe.
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>

#include "tests/support/value_kernels/call_log.h"
#include "tests/support/value_kernels/operand_uses.h"
#include "tests/support/value_kernels/planted_faults.h"
#include "tests/support/value_kernels/value_kernel.h"

#define VALUE_KERNELS_API extern "C" __attribute__((visibility("default")))

namespace {

using namespace tidepool::value_kernels;

// Returns the length of the text; what fits into `room` is written, as a C string.
size_t give(const std::string& text, char* to, size_t room) {
  if (room > 0) {
    const size_t length = text.size() < room ? text.size() : room - 1;
    std::memcpy(to, text.data(), length);
    to[length] = 0;
  }
  return text.size();
}

}  // namespace

// Returns how many kernels are replaced, or -1 with the reason on stderr.
VALUE_KERNELS_API int64_t value_kernels_install() {
  try {
    return static_cast<int64_t>(install_value_kernels());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "value kernels: %s\n", error.what());
    return -1;
  }
}

// Returns 0, or -1 where the file cannot be written.
VALUE_KERNELS_API int value_kernels_trace(const char* path) {
  try {
    call_log().trace_to(path);
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

VALUE_KERNELS_API void value_kernels_set_blank_seed(uint64_t seed) { set_blank_seed(seed); }

// Declares operands to the race checker from now on.
VALUE_KERNELS_API void value_kernels_watch(int on) { OperandUses::watch(on != 0); }

VALUE_KERNELS_API void value_kernels_plant_stale_read(uint64_t n) {
  planted_faults().plant_stale_read(n);
}
VALUE_KERNELS_API void value_kernels_plant_lost_write(uint64_t n) {
  planted_faults().plant_lost_write(n);
}
VALUE_KERNELS_API uint64_t value_kernels_planted_happened() { return planted_faults().happened(); }

VALUE_KERNELS_API uint64_t value_kernels_operations() { return call_log().operations(); }
VALUE_KERNELS_API size_t value_kernels_calls(char* to, size_t room) {
  return give(call_log().calls(), to, room);
}
VALUE_KERNELS_API size_t value_kernels_untreated(char* to, size_t room) {
  return give(call_log().untreated(), to, room);
}
