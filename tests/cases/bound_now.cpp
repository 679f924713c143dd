// A library that is linked with -z now and compiled with -fno-plt, as some distributions build
// PyTorch: the loader makes its table of functions read-only.
#include <c10/core/CPUAllocator.h>

extern "C" __attribute__((visibility("default"))) const void* default_allocator() {
  return c10::GetDefaultCPUAllocator();
}

extern "C" __attribute__((visibility("default"))) const void* present_allocator() {
  return c10::GetCPUAllocator();
}
