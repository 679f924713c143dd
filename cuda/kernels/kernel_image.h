// kernel_image(): the compiled kernels of check_kernels.cu for all architectures, as the driver
// loads them; empty where this was built without CUDA's compiler. The source is generated.
#pragma once

#include <span>

namespace tidepool::device {

std::span<const unsigned char> kernel_image();

}  // namespace tidepool::device
