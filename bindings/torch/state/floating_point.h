// How the calling thread rounds, and whether it flushes denormal numbers: bits 6 to 15 of MXCSR,
// without the sticky exception flags below them.
#pragma once

#include <xmmintrin.h>

#include <cstdint>

namespace tidepool::torch_glue {

constexpr uint32_t kFloatingPointControl = 0xffc0;

inline uint32_t floating_point_control() { return _mm_getcsr() & kFloatingPointControl; }
inline void set_floating_point_control(uint32_t control) {
  _mm_setcsr((_mm_getcsr() & ~kFloatingPointControl) | control);
}

}  // namespace tidepool::torch_glue
