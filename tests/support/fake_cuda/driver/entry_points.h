// Entry points: driver functions by name, as cudaGetDriverEntryPointByVersion finds them.
#pragma once

namespace tidepool::fake_cuda {

// The newest version of a driver function ("cuMemGetInfo" finds cuMemGetInfo_v2); nullptr where
// the stand-in has none.
void* driver_function(const char* name);

}  // namespace tidepool::fake_cuda
