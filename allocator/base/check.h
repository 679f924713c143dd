// TIDEPOOL_CHECK: an assertion that is always on, for bugs of the caller or our own. Prints the
// place, the condition and a printf-style message with the values, then aborts the process.
// Costs one predicted branch; depends on libc only, so that every layer may use it anywhere.
#pragma once

namespace tidepool {

[[noreturn]] [[gnu::cold]] [[gnu::format(printf, 4, 5)]] void check_failed(const char* file,
                                                                           int line,
                                                                           const char* condition,
                                                                           const char* format, ...);

}  // namespace tidepool

#define TIDEPOOL_CHECK(condition, ...) \
  (static_cast<bool>(condition)        \
       ? static_cast<void>(0)          \
       : ::tidepool::check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__))
