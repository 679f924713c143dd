// The C functions that steer and inspect the stand-in device, and its driver functions by name.
#include "tests/support/fake_cuda/control.h"

#include <string>

#include "tests/standin/driver.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda/driver/entry_points.h"

namespace tidepool::fake_cuda {
namespace {

std::string entry(const char* list, size_t index) {
  char text[256];
  fake_cuda_entry(list, index, text, sizeof text);
  return text;
}

TEST_CASE("counts follow what is alive") {
  Driver cuda;
  void* const stream = cuda.stream();
  void* const event = cuda.event();
  const auto range = cuda.reserved(kPage);
  const auto handle = cuda.created(kPage);
  cuda.map(range, kPage, 0, handle, 0);
  CHECK(fake_cuda_live("streams") == 1);
  CHECK(fake_cuda_live("events") == 1);
  CHECK(fake_cuda_live("reservations") == 1);
  CHECK(fake_cuda_live("handles") == 1);
  CHECK(fake_cuda_live("mappings") == 1);
  CHECK(fake_cuda_live("allocations") == 0);
  CHECK(fake_cuda_live("nothing") == ~size_t{0});
  CHECK(fake_cuda_calls("map") == 1);
  CHECK(fake_cuda_calls("maps") == ~uint64_t{0});
  CHECK(fake_cuda_used_bytes(0) == kPage);
  cuda.unmap(range, kPage);
  cuda.release(handle);
  cuda.release_range(range, kPage);
  cuda.destroy_event(event);
  cuda.destroy_stream(stream);
  for (const char* const what : {"streams", "events", "reservations", "handles", "mappings"}) {
    CHECK(fake_cuda_live(what) == 0);
  }
  CHECK(fake_cuda_used_bytes(0) == 0);
  CHECK(fake_cuda_used_peak_bytes(0) == kPage);
}

TEST_CASE("misuse is listed with function, error and reason") {
  Driver cuda;
  cuda.unmap(7 * kPage, kPage);
  REQUIRE(fake_cuda_count("misuses") == 1);
  CHECK(entry("misuses", 0).starts_with("cuMemUnmap: CUDA_ERROR_INVALID_VALUE: no mapping"));
  CHECK(entry("misuses", 1).empty());
  fake_cuda_forget("misuses");
  CHECK(fake_cuda_count("misuses") == 0);
}

TEST_CASE("launches, copies, records and waits are logged with their streams, newest kept") {
  Driver cuda({.log_entries = 4});
  void* const stream = cuda.stream();
  void* const event = cuda.event();
  driver::DeviceAddress memory = 0;
  cuda.allocate(&memory, kPage);
  cuda.run_kernel(stream);
  cuda.run_kernel(stream);
  cuda.record(event, stream);
  cuda.wait(nullptr, event, 0);
  cuda.fill_async(memory, 0, 8, stream);
  REQUIRE(fake_cuda_count("log") == 4);
  CHECK(entry("log", 0) == "3 event_record stream=1 tick=2 record event=1");
  CHECK(entry("log", 1) == "4 stream_wait stream=0 tick=0 wait event=1");
  CHECK(entry("log", 2) == "5 fill stream=1 tick=4 cuMemsetD8Async");
  CHECK(entry("log", 3).ends_with("bytes=8"));
}

TEST_CASE("settings change while the device is in use, or are refused") {
  Driver cuda;
  CHECK(fake_cuda_set("LATE", "1") == 0);
  void* const stream = cuda.stream();
  cuda.run_kernel(stream);
  CHECK(cuda.query_stream(stream) == kNotReadyCode);
  CHECK(fake_cuda_set("FAIL", "create:1") == 0);
  CHECK(cuda.created(kPage) == 0);
  CHECK(fake_cuda_set("FAIL", "create:1") == 0);
  fake_cuda_clear_failures();
  CHECK(cuda.created(kPage) != 0);
  CHECK(fake_cuda_set("LATER", "1") == -1);
  CHECK(fake_cuda_set("TOUCH", "2") == -1);
}

TEST_CASE("an operand that may not be touched is misuse") {
  Driver cuda;
  const auto range = cuda.reserved(2 * kPage);
  void* const start = reinterpret_cast<void*>(range);
  cuda.map(range, kPage, 0, cuda.created(kPage), 0);
  fake_cuda_range_used(start, 8, nullptr);
  cuda.allow(range, kPage);
  fake_cuda_range_used(start, kPage, nullptr);
  fake_cuda_range_used(start, kPage + 1, nullptr);
  REQUIRE(fake_cuda_count("misuses") == 2);
  CHECK(entry("misuses", 0).find("is not accessible") != std::string::npos);
  CHECK(entry("misuses", 1).find("is not mapped") != std::string::npos);
}

TEST_CASE("a machine without a device refuses what needs one") {
  Driver cuda({.devices = 0});
  CHECK(cuda.run_kernel(nullptr) == static_cast<int>(Error::kInvalidDevice));
  CHECK(cuda.created(kPage) == 0);
}

TEST_CASE("driver functions are found by name, the newest version first") {
  const auto at = [](const char* name, int version) {
    return driver_entry_point(name, version).function;
  };
  CHECK(at("cuMemGetInfo", 13000) == at("cuMemGetInfo_v2", 3020));
  CHECK(at("cuMemGetInfo", 3020) != nullptr);
  CHECK(at("cuMemGetInfo", 3010) == nullptr);
  CHECK(at("cuEventElapsedTime", 12080) == at("cuEventElapsedTime_v2", 12080));
  CHECK(at("cuEventElapsedTime", 12070) != nullptr);
  CHECK(at("cuEventElapsedTime", 12070) != at("cuEventElapsedTime", 12080));
  CHECK(at("cuCtxSynchronize", 12090) != nullptr);
  CHECK(at("cuCtxSynchronize", 13000) == nullptr);  // takes a context from then on
  CHECK(at("", 13000) == nullptr);
}

TEST_CASE("a function is asked for by name, version and flags") {
  const auto status_of = [](const char* name, unsigned version) {
    void* found = nullptr;
    int status = -1;
    CHECK(cudaGetDriverEntryPointByVersion(name, &found, version, 0, &status) == kOk);
    CHECK((found != nullptr) == (status == 0));
    return status;
  };
  CHECK(status_of("cuMemCreate", 10020) == 0);
  CHECK(status_of("cuNothing", 13000) == 1);
  CHECK(status_of("cuMemCreate", 10010) == 2);
  CHECK(status_of("cuStreamGetId", 11080) == 2);
  void* found = &found;
  CHECK(cudaGetDriverEntryPointByVersion("cuInit", &found, 13010, 0, nullptr) == kInvalid);
  CHECK(found == nullptr);
  CHECK(cudaGetDriverEntryPointByVersion("cuInit", &found, 2000, 3, nullptr) == kInvalid);
  CHECK(cudaGetDriverEntryPointByVersion("cuInit", &found, 2000, 2, nullptr) ==
        static_cast<int>(Error::kNotSupported));
  CHECK(cudaGetDriverEntryPointByVersion("cuInit", &found, 2000, 1, nullptr) == kOk);
}

}  // namespace
}  // namespace tidepool::fake_cuda
