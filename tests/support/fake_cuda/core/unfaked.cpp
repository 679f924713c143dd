#include "tests/support/fake_cuda/core/unfaked.h"

#include <cstdio>
#include <cstdlib>

namespace tidepool::fake_cuda {

void unfaked(const char* function) {
  std::fprintf(stderr, "fake_cuda: %s is not in the stand-in device\n", function);
  std::abort();
}

}  // namespace tidepool::fake_cuda
