// What every stand-in device says about itself: those of a Hopper GPU, in the driver's numbering of
// attributes, which the runtime shares.
#pragma once

#include <cstddef>

namespace tidepool::fake_cuda {

inline constexpr const char* kDeviceName = "Tidepool stand-in CUDA device";
inline constexpr int kComputeMajor = 9;
inline constexpr int kComputeMinor = 0;
inline constexpr int kMultiprocessors = 132;
inline constexpr int kWarpSize = 32;
inline constexpr int kThreadsPerBlock = 1024;
inline constexpr int kThreadsPerMultiprocessor = 2048;
inline constexpr int kBlocksPerMultiprocessor = 32;
inline constexpr int kRegistersPerBlock = 65536;
inline constexpr int kSharedPerBlock = 48 << 10;
inline constexpr int kSharedPerBlockOptIn = 227 << 10;
inline constexpr int kSharedPerMultiprocessor = 228 << 10;
inline constexpr int kL2CacheBytes = 50 << 20;
inline constexpr int kMaxGridX = 2147483647;
inline constexpr int kMaxGridYZ = 65535;
inline constexpr int kMaxBlockZ = 64;
inline constexpr int kTextureAlignment = 512;
inline constexpr int kLowestPriority = 0;
inline constexpr int kHighestPriority = -5;

// 0 for an attribute not listed.
constexpr int device_attribute(int attribute) {
  switch (attribute) {
    case 1:
      return kThreadsPerBlock;
    case 2:
    case 3:
      return kThreadsPerBlock;  // block dimensions x and y
    case 4:
      return kMaxBlockZ;
    case 5:
      return kMaxGridX;
    case 6:
    case 7:
      return kMaxGridYZ;
    case 8:
      return kSharedPerBlock;
    case 10:
      return kWarpSize;
    case 12:
      return kRegistersPerBlock;
    case 14:
      return kTextureAlignment;
    case 16:
      return kMultiprocessors;
    case 19:
      return 1;  // can map host memory
    case 31:
      return 1;  // concurrent kernels
    case 38:
      return kL2CacheBytes;
    case 39:
      return kThreadsPerMultiprocessor;
    case 40:
      return 3;  // asynchronous engines
    case 41:
      return 1;  // unified addressing
    case 75:
      return kComputeMajor;
    case 76:
      return kComputeMinor;
    case 78:
      return 1;  // stream priorities
    case 81:
      return kSharedPerMultiprocessor;
    case 82:
      return kRegistersPerBlock;  // registers per multiprocessor
    case 95:
      return 1;  // cooperative launch
    case 97:
      return kSharedPerBlockOptIn;
    case 102:
      return 1;  // virtual memory management
    case 103:
      return 1;  // handles as file descriptors
    case 106:
      return kBlocksPerMultiprocessor;
    case 115:
      return 1;  // memory pools
    default:
      return 0;
  }
}

}  // namespace tidepool::fake_cuda
