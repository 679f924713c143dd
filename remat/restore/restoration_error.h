// RestorationError: evicted contents cannot be brought back.
#pragma once

#include <stdexcept>

namespace tidepool::remat {

// Thrown when a restoration cannot make progress (thrash, an input that was lost). The text says
// which operator and what could not be restored.
class RestorationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace tidepool::remat
