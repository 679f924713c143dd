// HostPrices: what copies and moved pages are taken to cost on a CPU until they have been measured,
// and in traces.
#pragma once

#include <cstdint>

namespace tidepool::torch_glue {

inline constexpr float kHostCopyNsPerByte = 0.25F;
inline constexpr uint64_t kHostMapNs = 5000;  // a page

}  // namespace tidepool::torch_glue
