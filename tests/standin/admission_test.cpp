// Whom the stand-in device answers: threads with and without a context, forked children, a process
// that ends, and anybody after an error that breaks the context.
#include "tests/support/fake_cuda/core/admission.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <thread>

#include "tests/standin/driver.h"
#include "tests/support/catch.h"

extern "C" {
int cudaMalloc(void** address, size_t bytes);
int cudaGetDeviceCount(int* count);
int cudaGetLastError();
int cuCtxGetCurrent(void** context);
int cuCtxSetCurrent(void* context);
int cuCtxPushCurrent_v2(void* context);
int cuCtxPopCurrent_v2(void** context);
int cuCtxGetDevice(int* device);
int cuDeviceGet(int* device, int ordinal);
int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active);
int cuModuleLoadData(void** module, const void* image);
}

namespace tidepool::fake_cuda {
namespace {

constexpr int kNoContext = static_cast<int>(Error::kInvalidContext);
constexpr int kIllegal = static_cast<int>(Error::kIllegalAddress);

// Destroyed at the process's end, after CUDA has gone: it was made before that was initialised.
class LastCaller {
 public:
  ~LastCaller() {
    void* context = nullptr;
    const int answer = cuCtxGetCurrent(&context);
    const bool is_gone = answer == static_cast<int>(Error::kDeinitialized);
    const bool was_never_there = answer == static_cast<int>(Error::kNotInitialized);
    if (!is_gone && (was_used || !was_never_there)) std::_Exit(70);
  }
  bool was_used = false;
} last_caller;

template <typename Body>
void in_a_thread(const Body& body) {
  std::thread(body).join();
}

TEST_CASE("a driver's call that needs a context is refused in a thread without one") {
  Driver cuda;
  last_caller.was_used = true;
  driver::DeviceAddress memory = 0;
  REQUIRE(cuda.allocate(&memory, kPage) == kOk);
  void* const stream = cuda.stream();
  void* const event = cuda.event();
  in_a_thread([&] {
    size_t free = 0;
    size_t total = 0;
    void* made = nullptr;
    void* context = &made;
    driver::DeviceAddress other = 0;
    CHECK(cuCtxGetCurrent(&context) == kOk);
    CHECK(context == nullptr);
    for (const int answer :
         {cuda.info(&free, &total), cuda.allocate(&other, kPage), cuda.free(memory),
          cuda.create_stream(&made, 0), cuda.create_event(&made, 0), cuda.record(event, stream),
          cuda.wait(stream, event, 0), cuda.query(event), cuda.synchronize(event),
          cuda.query_stream(stream), cuda.run_kernel(stream), cuda.fill_async(memory, 0, 8, stream),
          cuda.synchronize_device(), cuda.destroy_event(event), cuModuleLoadData(&made, "image"),
          cuCtxPopCurrent_v2(&context)}) {
      CHECK(answer == kNoContext);
    }
    const auto range = cuda.reserved(kPage);  // says its device by itself, as all that maps
    const auto handle = cuda.created(kPage);
    CHECK(cuda.map(range, kPage, 0, handle, 0) == kOk);
    CHECK(cuda.allow(range, kPage) == kOk);
    CHECK(cuda.unmap(range, kPage) == kOk);
  });
  CHECK(cuda.machine.misuses.size() == 16);
  CHECK(cuda.query(event) == kOk);
}

TEST_CASE("a context is pushed and popped, and the runtime takes one by itself") {
  Driver cuda({.devices = 2});
  in_a_thread([&] {
    int device = -1;
    void* context = nullptr;
    REQUIRE(cuCtxPushCurrent_v2(driver::context(1)) == kOk);
    CHECK(cuCtxGetDevice(&device) == kOk);
    CHECK(device == 1);
    CHECK(cuCtxPopCurrent_v2(&context) == kOk);
    CHECK(context == driver::context(1));
    CHECK(cuCtxGetDevice(&device) == kNoContext);
    CHECK(cuCtxPopCurrent_v2(&context) == kNoContext);
    CHECK(cuCtxPushCurrent_v2(driver::context(2)) == kNoContext);
    CHECK(cuCtxPushCurrent_v2(nullptr) == kInvalid);
    REQUIRE(cudaMalloc(&context, 1) == kOk);
    CHECK(cuCtxGetDevice(&device) == kOk);
    CHECK(cuCtxSetCurrent(nullptr) == kOk);
    CHECK(cuCtxGetDevice(&device) == kNoContext);
  });
  int active = 0;
  CHECK(cuDevicePrimaryCtxGetState(1, nullptr, &active) == kOk);
  CHECK(active == 1);
}

TEST_CASE("a child forked from a process that has used CUDA gets no answer") {
  Driver cuda;
  last_caller.was_used = true;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    size_t free = 0;
    size_t total = 0;
    void* memory = nullptr;
    int device = 0;
    const std::array answers = {cuda.info(&free, &total), cudaMalloc(&memory, 1),
                                cudaGetDeviceCount(&device), cuDeviceGet(&device, 0),
                                cuda.release(1)};
    for (const int answer : answers) {
      if (answer != static_cast<int>(Error::kNotInitialized)) _exit(1);
    }
    _exit(0);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("after an error that breaks the context every call fails with it") {
  Driver cuda;
  last_caller.was_used = true;
  void* const stream = cuda.stream();
  void* const event = cuda.event();
  void* memory = nullptr;
  cuda.machine.book.fail({.call = Call::kLaunch, .error = Error::kOutOfMemory});
  CHECK(cuda.run_kernel(stream) == kOutOfMemory);
  CHECK(cuda.run_kernel(stream) == kOk);
  cuda.machine.book.fail({.call = Call::kLaunch, .error = Error::kIllegalAddress});
  CHECK(cuda.run_kernel(stream) == kIllegal);
  CHECK(cuda.run_kernel(stream) == kIllegal);
  CHECK(cuda.record(event, stream) == kIllegal);
  CHECK(cuda.query(event) == kIllegal);
  CHECK(cuda.created(kPage) == 0);
  CHECK(cuda.destroy_event(event) == kIllegal);
  CHECK(cudaMalloc(&memory, 1) == kIllegal);
  CHECK(cudaGetLastError() == kIllegal);
  CHECK(cudaGetLastError() == kIllegal);
  cuda.machine.broken = Error::kSuccess;
  CHECK(cuda.query(event) == kOk);
}

}  // namespace
}  // namespace tidepool::fake_cuda
