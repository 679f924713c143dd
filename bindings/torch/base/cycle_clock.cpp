#include "bindings/torch/base/cycle_clock.h"

#include <chrono>

namespace tidepool::torch_glue {

void CycleClock::calibrate() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const uint64_t cycles = now();
  while (Clock::now() - start < std::chrono::milliseconds(2)) {
  }
  const double ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  ns_per_cycle_ = ns / static_cast<double>(now() - cycles);
}

}  // namespace tidepool::torch_glue
