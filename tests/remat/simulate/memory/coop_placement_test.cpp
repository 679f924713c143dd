#include "remat/simulate/memory/coop_placement.h"

#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

TEST_CASE("convolutions and matrix products are dear, all else is cheap") {
  for (const char* name : {"conv2d", "matmul", "add_n", "aten::mm", "aten::bmm.out",
                           "aten::convolution_backward", "convolution"}) {
    INFO(name);
    CHECK(coop_placement(name) == End::kLow);
  }
  for (const char* name : {"", "relu", "aten::relu_", "aten::add.Tensor", "mm_like", "aten::mms"}) {
    INFO(name);
    CHECK(coop_placement(name) == End::kHigh);
  }
}

}  // namespace
}  // namespace tidepool::remat
