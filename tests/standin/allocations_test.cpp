// cudaMalloc and its like, host memory, copies and fills on the stand-in device.
#include "tests/support/fake_cuda/core/allocations.h"

#include <cstring>
#include <vector>

#include "tests/standin/driver.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda/core/memory_calls.h"
#include "tests/support/fake_cuda/runtime/abi.h"

extern "C" {
int cudaMalloc(void** address, size_t bytes);
int cudaFree(void* address);
int cudaHostAlloc(void** address, size_t bytes, unsigned flags);
int cudaFreeHost(void* address);
int cudaHostRegister(void* address, size_t bytes, unsigned flags);
int cudaHostUnregister(void* address);
int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream);
int cudaPointerGetAttributes(tidepool::fake_cuda::runtime::PointerAttributes* attributes,
                             const void* address);
int cudaIpcGetMemHandle(tidepool::fake_cuda::runtime::SharedMemoryHandle* handle, void* address);
int cudaIpcOpenMemHandle(void** address, tidepool::fake_cuda::runtime::SharedMemoryHandle handle,
                         unsigned flags);
int cudaIpcCloseMemHandle(void* address);
int cudaGetLastError();
int cudaPeekAtLastError();
}

namespace tidepool::fake_cuda {
namespace {

TEST_CASE("allocations are memory of the current device, up to what it has") {
  Driver cuda({.devices = 2, .memory_bytes = {2 * kPage, 3 * kPage}});
  void* first = nullptr;
  void* second = nullptr;
  void* third = nullptr;
  REQUIRE(cudaMalloc(&first, 100) == kOk);
  CHECK(cuda.machine.memory(0).used_bytes() == kPage);
  CHECK(cudaMalloc(&second, 2 * kPage) == kOutOfMemory);
  CHECK(cudaMalloc(&second, ~size_t{0}) == kOutOfMemory);
  current_device() = 1;
  CHECK(cudaMalloc(&second, 2 * kPage + 1) == kOk);
  current_device() = 0;
  CHECK(cuda.machine.memory(1).used_bytes() == 3 * kPage);

  runtime::PointerAttributes attributes;
  REQUIRE(cudaPointerGetAttributes(&attributes, static_cast<char*>(second) + 9) == kOk);
  CHECK(attributes.type == 2);
  CHECK(attributes.device == 1);
  CHECK(cudaFree(second) == kOk);
  CHECK(cudaFree(first) == kOk);
  CHECK(cudaFree(first) == kInvalid);
  CHECK(cudaFree(nullptr) == kOk);
  CHECK(cudaMalloc(&third, 0) == kOk);
  CHECK(third == nullptr);
  CHECK(cuda.machine.allocations.live() == 0);
  CHECK(cuda.machine.memory(0).used_bytes() + cuda.machine.memory(1).used_bytes() == 0);
}

std::vector<size_t> free_by_call(uint64_t seed) {
  const size_t others = size_t{4} << 30;
  Driver cuda({.outside_bytes = others, .outside_changes_every = 5, .outside_seed = seed});
  std::vector<size_t> found(300);
  for (size_t& free : found) {
    size_t total = 0;
    REQUIRE(cuda.info(&free, &total) == kOk);
    CHECK((total - others <= free && free <= total));
  }
  return found;
}

TEST_CASE("others take memory and give it back at moments and in amounts that a seed decides") {
  const std::vector<size_t> found = free_by_call(1);
  CHECK(found == free_by_call(1));
  CHECK(found != free_by_call(2));
  size_t taken = 0;
  size_t given_back = 0;
  for (size_t call = 1; call < found.size(); ++call) {
    taken += found[call] < found[call - 1] ? 1 : 0;
    given_back += found[call] > found[call - 1] ? 1 : 0;
  }
  CHECK(taken > 15);
  CHECK(given_back > 15);
  CHECK(taken + given_back < 100);
}

TEST_CASE("the runtime's last error stays until it is asked for") {
  Driver cuda({.memory_bytes = {kPage}});
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 2 * kPage) == kOutOfMemory);
  CHECK(cudaMalloc(&memory, kPage) == kOk);
  CHECK(cudaPeekAtLastError() == kOutOfMemory);
  CHECK(cudaGetLastError() == kOutOfMemory);
  CHECK(cudaGetLastError() == kOk);
}

TEST_CASE("host memory is known once it is allocated or registered") {
  Driver cuda;
  void* pinned = nullptr;
  std::vector<char> pageable(100);
  runtime::PointerAttributes attributes;
  REQUIRE(cudaHostAlloc(&pinned, 100, 0) == kOk);
  cudaPointerGetAttributes(&attributes, static_cast<char*>(pinned) + 99);
  CHECK(attributes.type == 1);
  cudaPointerGetAttributes(&attributes, pageable.data());
  CHECK(attributes.type == 0);
  REQUIRE(cudaHostRegister(pageable.data(), 100, 0) == kOk);
  cudaPointerGetAttributes(&attributes, pageable.data());
  CHECK(attributes.type == 1);
  CHECK(cudaHostRegister(pageable.data() + 50, 10, 0) ==
        static_cast<int>(Error::kHostMemoryAlreadyRegistered));
  CHECK(cudaHostUnregister(pageable.data()) == kOk);
  CHECK(cudaHostUnregister(pageable.data()) == static_cast<int>(Error::kHostMemoryNotRegistered));
  CHECK(cudaFreeHost(pinned) == kOk);
  CHECK(cudaFreeHost(pinned) == kInvalid);
  CHECK(cuda.machine.allocations.live_host() == 0);
}

TEST_CASE("page-locked memory ends where the setting says") {
  Driver cuda({.host_bytes = 1000});
  void* first = nullptr;
  void* second = nullptr;
  std::vector<char> pageable(400);
  REQUIRE(cudaHostAlloc(&first, 600, 0) == kOk);
  CHECK(cudaHostAlloc(&second, 401, 0) == kOutOfMemory);
  REQUIRE(cudaHostRegister(pageable.data(), 400, 0) == kOk);
  CHECK(cudaHostAlloc(&second, 1, 0) == kOutOfMemory);
  CHECK(cudaFreeHost(first) == kOk);
  CHECK(cudaHostAlloc(&second, 600, 0) == kOk);
  CHECK(cudaHostUnregister(pageable.data()) == kOk);
  CHECK(cudaHostRegister(pageable.data(), 401, 0) == kOutOfMemory);
  CHECK(cudaFreeHost(second) == kOk);
  CHECK(cuda.machine.misuses.empty());
}

TEST_CASE("copies and fills move bytes, and stay inside their allocation") {
  Driver cuda;
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, kPage) == kOk);
  char text[8] = "bytes";
  char back[8] = {};
  REQUIRE(cudaMemcpyAsync(memory, text, sizeof text, 1, nullptr) == kOk);
  REQUIRE(cudaMemcpyAsync(back, memory, sizeof back, 2, nullptr) == kOk);
  CHECK(std::string(back) == "bytes");
  CHECK(cudaMemcpyAsync(static_cast<char*>(memory) + kPage - 4, text, 8, 1, nullptr) == kInvalid);
  CHECK(calls::fill("fill", memory, 0x01020304, 4, 2, nullptr, calls::Wait::kYes) ==
        Error::kSuccess);
  CHECK(static_cast<char*>(memory)[4] == 4);
  CHECK(static_cast<char*>(memory)[7] == 1);
  CHECK(static_cast<char*>(memory)[8] == 0);
}

TEST_CASE("device bytes that must not be touched are not, and come back as zeros") {
  Driver cuda({.touch_memory = false});
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, kPage) == kOk);
  char text[8] = "bytes";
  REQUIRE(cudaMemcpyAsync(memory, text, sizeof text, 1, nullptr) == kOk);
  CHECK(*static_cast<char*>(memory) == 0);
  REQUIRE(cudaMemcpyAsync(text, memory, sizeof text, 2, nullptr) == kOk);
  CHECK(text[0] == 0);
}

TEST_CASE("a copy back to pageable memory is waited for, one to pinned memory is not") {
  Driver cuda({.late_queries = kOnlyWhenAsked});
  void* memory = nullptr;
  void* pinned = nullptr;
  char pageable[8];
  REQUIRE(cudaMalloc(&memory, kPage) == kOk);
  REQUIRE(cudaHostAlloc(&pinned, 8, 0) == kOk);
  void* const stream = cuda.stream();
  cudaMemcpyAsync(pinned, memory, 8, 2, stream);
  CHECK(cuda.query_stream(stream) == kNotReadyCode);
  cudaMemcpyAsync(pageable, memory, 8, 2, stream);
  CHECK(cuda.query_stream(stream) == kOk);
}

TEST_CASE("an allocation is opened again by its handle") {
  Driver cuda;
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, kPage) == kOk);
  runtime::SharedMemoryHandle handle;
  REQUIRE(cudaIpcGetMemHandle(&handle, memory) == kOk);
  void* opened = nullptr;
  REQUIRE(cudaIpcOpenMemHandle(&opened, handle, 0) == kOk);
  CHECK(opened != memory);
  std::strcpy(static_cast<char*>(memory), "shared");
  CHECK(std::string(static_cast<char*>(opened)) == "shared");
  CHECK(cuda.machine.memory(0).used_bytes() == kPage);
  CHECK(cudaFree(opened) == kInvalid);
  CHECK(cudaIpcCloseMemHandle(opened) == kOk);
  CHECK(cudaIpcCloseMemHandle(memory) == kInvalid);
  handle.ticket[0] = 'x';
  CHECK(cudaIpcOpenMemHandle(&opened, handle, 0) == kInvalid);
}

}  // namespace
}  // namespace tidepool::fake_cuda
