// Functions by which the plugins' C interfaces give texts and errors to their callers.
// Thread safe.
#pragma once

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <string>

#include "allocator/arena/out_of_memory.h"

namespace tidepool::torch_glue {

inline constexpr int kOutOfMemory = 1;
inline constexpr int kFailed = 2;

// Copies a message, cut to what fits, and returns `code`.
inline int fail(int code, const std::string& message, char* error, size_t error_bytes) {
  if (error != nullptr && error_bytes > 0) {
    const size_t length = std::min(message.size(), error_bytes - 1);
    std::memcpy(error, message.data(), length);
    error[length] = '\0';
  }
  return code;
}

// Calls `work`. Returns 0, or the code for what it has thrown, whose message is copied.
template <class Work>
int report_errors(char* error, size_t error_bytes, Work&& work) {
  try {
    work();
    return 0;
  } catch (const OutOfMemory& exception) {
    return fail(kOutOfMemory, exception.what(), error, error_bytes);
  } catch (const c10::OutOfMemoryError& exception) {
    return fail(kOutOfMemory, exception.what_without_backtrace(), error, error_bytes);
  } catch (const std::exception& exception) {
    return fail(kFailed, exception.what(), error, error_bytes);
  }
}

// Why tidepool_set_limit() leaves the limit as it was.
inline std::string limit_refusal(size_t bytes) {
  return "out of memory: what cannot be evicted now, or one page, takes more than " +
         std::to_string(bytes) + " bytes; the limit is what it was";
}

// Copies a text if all of it fits. Returns the bytes it needs, the NUL included.
inline size_t give_text(const std::string& text, char* out, size_t capacity) {
  if (out != nullptr && capacity > text.size()) std::memcpy(out, text.c_str(), text.size() + 1);
  return text.size() + 1;
}

}  // namespace tidepool::torch_glue
