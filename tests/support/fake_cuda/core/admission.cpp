#include "tests/support/fake_cuda/core/admission.h"

#include <pthread.h>

#include <atomic>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string_view>

namespace tidepool::fake_cuda {
namespace {

enum class State : uint8_t { kFresh, kInitialized, kForked, kDeinitialized };

std::atomic<State> the_state = State::kFresh;
std::atomic<uint64_t> contexts_made = 0;  // a bit for each device

void after_fork() {
  if (the_state != State::kFresh) the_state = State::kForked;
}

Error answer(State state) {
  switch (state) {
    case State::kInitialized:
      return Error::kSuccess;
    case State::kDeinitialized:
      return Error::kDeinitialized;
    default:
      return Error::kNotInitialized;
  }
}

// The driver's functions whose documentation names no context among their errors. cuEventQuery has
// none either, but asks about an event, which belongs to one.
bool needs_context(std::string_view function) {
  for (const std::string_view prefix :
       {"cuMemAddress", "cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap", "cuMemSetAccess",
        "cuMemGetAccess", "cuMemExport", "cuMemImport", "cuMemGetAllocation", "cuMemRetain",
        "cuThreadExchange", "cuStreamBeginCapture", "cuStreamEndCapture", "cuStreamIsCapturing",
        "cuGraph", "cuDevice"}) {
    if (function.starts_with(prefix)) return false;
  }
  return true;
}

}  // namespace

int& current_device() {
  static thread_local int device = 0;
  return device;
}

bool& has_context() {
  static thread_local bool has = false;
  return has;
}

void use_context(int device) {
  current_device() = device;
  has_context() = true;
  contexts_made |= uint64_t{1} << device;
}

bool is_context_made(int device) { return (contexts_made >> device & 1) != 0; }

Error initialize() {
  static std::once_flag once;
  if (the_state == State::kFresh) {
    std::call_once(once, [] {
      pthread_atfork(nullptr, nullptr, after_fork);
      // What was made before now is destroyed after it.
      std::atexit([] { the_state = State::kDeinitialized; });
      the_state = State::kInitialized;
    });
  }
  return answer(the_state);
}

Error admit(const char* function) {
  const std::string_view name = function;
  if (!name.starts_with("cu") || name.size() < 3) return Error::kSuccess;
  if (std::islower(static_cast<unsigned char>(name[2])) != 0) {
    const Error error = initialize();
    if (error == Error::kSuccess && !has_context()) use_context(current_device());
    return error;
  }
  const Error error = answer(the_state);
  if (error != Error::kSuccess) return error;
  return needs_context(name) && !has_context() ? Error::kInvalidContext : Error::kSuccess;
}

}  // namespace tidepool::fake_cuda
