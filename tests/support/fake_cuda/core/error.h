// Error: the codes of the CUDA driver, which the runtime shares, and Refusal, which carries one.
#pragma once

#include <stdexcept>
#include <string>

namespace tidepool::fake_cuda {

enum class Error : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kMissingConfiguration = 52,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kPeerAccessUnsupported = 217,
  kInvalidHandle = 400,
  kSymbolNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchTimeout = 702,
  kPeerAccessAlreadyEnabled = 704,
  kAssert = 710,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidProgramCounter = 718,
  kLaunchFailed = 719,
  kNotPermitted = 800,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureMerge = 902,
  kCaptureUnmatched = 903,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCaptureImplicit = 906,
  kCapturedEvent = 907,
  kCaptureWrongThread = 908,
  kUnknown = 999,
};

// Whether an error leaves the context broken: every later call fails with it, until the process
// ends.
bool is_sticky(Error error);

// As the driver's and the runtime's cuGetErrorName and cuGetErrorString say it; "unrecognized
// error code" where they have no text here.
const char* driver_name(Error error);
const char* runtime_name(Error error);
const char* description(Error error);

// A call that CUDA would refuse, and why. A call that throws it has changed nothing.
class Refusal : public std::runtime_error {
 public:
  Refusal(Error code, const std::string& why) : std::runtime_error(why), error(code) {}

  const Error error;
};

}  // namespace tidepool::fake_cuda
