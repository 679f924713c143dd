// Entry points: driver functions by name and version, as cuGetProcAddress finds them.
#pragma once

namespace tidepool::fake_cuda {

struct EntryPoint {
  void* function = nullptr;
  bool is_known = false;  // under this name, though in other versions only
};

// The driver function that a name means in a version, in CUDA's numbers (12030 is 12.3): of
// cuMemGetInfo cuMemGetInfo_v2 from 3020 on, and none before, where the stand-in lacks it.
EntryPoint driver_entry_point(const char* name, int version);

// The same as CUDA answers, which writes 0 (found), 1 (no such name) or 2 (not in this version) to
// `status`, if there is one. Versions above the driver's own, and flags that are none, are invalid;
// variants for default streams of threads are not to be had.
int find_driver_function(const char* name, void** function, int version, unsigned long long flags,
                         int* status);

}  // namespace tidepool::fake_cuda
