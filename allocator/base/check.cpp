#include "allocator/base/check.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace tidepool {

void check_failed(const char* file, int line, const char* condition, const char* format, ...) {
  // The line is one write, so that lines of several threads or processes do not mix.
  char text[1024];
  int length = std::snprintf(text, sizeof text, "tidepool: %s:%d: check failed: %s: ", file, line,
                             condition);
  if (length < 0) length = 0;
  if (static_cast<size_t>(length) < sizeof text) {
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text + length, sizeof text - static_cast<size_t>(length), format, arguments);
    va_end(arguments);
  }
  std::fprintf(stderr, "%s\n", text);
  std::abort();
}

}  // namespace tidepool
