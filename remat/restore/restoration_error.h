// RestorationError: the error of evicted contents that cannot be brought back.
#pragma once

#include <stdexcept>

namespace tidepool::remat {

// It is thrown if a restoration makes no progress, or if an input was lost. The text says which
// operator it was about, and what could not be restored.
class RestorationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace tidepool::remat
