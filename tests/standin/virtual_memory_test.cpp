// The driver's virtual memory calls on the stand-in device: semantics, references, error codes.
#include <unistd.h>

#include <cstring>
#include <vector>

#include "tests/standin/driver.h"
#include "tests/support/catch.h"

namespace tidepool::fake_cuda {
namespace {

char* bytes_at(driver::DeviceAddress address) { return reinterpret_cast<char*>(address); }

TEST_CASE("mapped memory holds what is written to it, at whatever address it is mapped") {
  Driver cuda;
  const auto range = cuda.reserved(4 * kPage);
  REQUIRE(range % kPage == 0);
  const auto handle = cuda.created(kPage);
  REQUIRE(cuda.map(range, kPage, 0, handle, 0) == kOk);
  REQUIRE(cuda.allow(range, kPage) == kOk);
  std::strcpy(bytes_at(range), "moved");

  SECTION("twice at once") {
    REQUIRE(cuda.map(range + 2 * kPage, kPage, 0, handle, 0) == kOk);
    REQUIRE(cuda.allow(range + 2 * kPage, kPage) == kOk);
    bytes_at(range + 2 * kPage)[0] = 'M';
    CHECK(std::string(bytes_at(range)) == "Moved");
    CHECK(cuda.unmap(range + 2 * kPage, kPage) == kOk);
  }
  SECTION("one after the other") {
    REQUIRE(cuda.unmap(range, kPage) == kOk);
    REQUIRE(cuda.map(range + 3 * kPage, kPage, 0, handle, 0) == kOk);
    REQUIRE(cuda.allow(range + 3 * kPage, kPage) == kOk);
    CHECK(std::string(bytes_at(range + 3 * kPage)) == "moved");
    REQUIRE(cuda.unmap(range + 3 * kPage, kPage) == kOk);
    REQUIRE(cuda.map(range, kPage, 0, handle, 0) == kOk);
  }
  CHECK(cuda.unmap(range, kPage) == kOk);
  CHECK(cuda.release(handle) == kOk);
  CHECK(cuda.release_range(range, 4 * kPage) == kOk);
  CHECK(cuda.machine.memory(0).used_bytes() == 0);
  CHECK(cuda.machine.misuses.empty());
}

TEST_CASE("memory that was released comes back empty") {
  Driver cuda;
  const auto range = cuda.reserved(kPage);
  for (int round = 0; round < 2; ++round) {
    const auto handle = cuda.created(kPage);
    REQUIRE(cuda.map(range, kPage, 0, handle, 0) == kOk);
    REQUIRE(cuda.allow(range, kPage) == kOk);
    CHECK(bytes_at(range)[17] == 0);
    bytes_at(range)[17] = 1;
    REQUIRE(cuda.unmap(range, kPage) == kOk);
    REQUIRE(cuda.release(handle) == kOk);
  }
}

TEST_CASE("a handle lives until its owners have released it and its mappings are gone") {
  Driver cuda;
  const auto range = cuda.reserved(kPage);
  const auto handle = cuda.created(kPage);
  REQUIRE(cuda.map(range, kPage, 0, handle, 0) == kOk);
  unsigned long long again = 0;
  REQUIRE(cuda.retain(&again, reinterpret_cast<void*>(range + 5)) == kOk);
  CHECK(again == handle);

  CHECK(cuda.release(handle) == kOk);
  CHECK(cuda.release(handle) == kOk);
  CHECK(cuda.machine.memory(0).used_bytes() == kPage);  // the mapping holds it
  CHECK(cuda.release(handle) == kInvalid);
  CHECK(cuda.unmap(range, kPage) == kOk);
  CHECK(cuda.machine.memory(0).used_bytes() == 0);
  CHECK(cuda.release(handle) == kInvalid);
  CHECK(cuda.map(range, kPage, 0, handle, 0) == kInvalid);
  CHECK(cuda.machine.misuses.size() == 3);
}

TEST_CASE("the device's memory is the limit, and an error leaves it as it was") {
  Driver cuda({.memory_bytes = {3 * kPage}});
  const auto first = cuda.created(2 * kPage);
  CHECK(cuda.created(2 * kPage) == 0);
  CHECK(cuda.machine.memory(0).used_bytes() == 2 * kPage);
  CHECK(cuda.machine.misuses.empty());  // a shortage is no misuse
  CHECK(cuda.created(kPage) != 0);
  CHECK(cuda.release(first) == kOk);
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  REQUIRE(cuda.info(&free_bytes, &total_bytes) == kOk);
  CHECK(free_bytes == 2 * kPage);
  CHECK(total_bytes == 3 * kPage);
}

TEST_CASE("misuse of virtual memory is refused with CUDA's error and changes nothing") {
  Driver cuda;
  const auto range = cuda.reserved(8 * kPage);
  const auto one = cuda.created(kPage);
  const auto two = cuda.created(2 * kPage);
  REQUIRE(cuda.map(range, kPage, 0, one, 0) == kOk);
  REQUIRE(cuda.map(range + kPage, 2 * kPage, 0, two, 0) == kOk);
  const auto properties = Driver::on_device();
  const auto nowhere = Driver::on_device(1);
  unsigned long long handle = 0;
  driver::DeviceAddress address = 0;

  CHECK(cuda.reserve(&address, kPage + 1, 0, 0, 0) == kInvalid);
  CHECK(cuda.reserve(&address, kPage, 3, 0, 0) == kInvalid);
  CHECK(cuda.reserve(&address, 0, 0, 0, 0) == kInvalid);
  CHECK(cuda.create(&handle, kPage / 2, &properties, 0) == kInvalid);
  CHECK(cuda.create(&handle, kPage, &nowhere, 0) == static_cast<int>(Error::kInvalidDevice));
  CHECK(cuda.create(&handle, kPage, nullptr, 0) == kInvalid);

  CHECK(cuda.map(range, kPage, 0, one, 0) == kInvalid);                  // mapped already
  CHECK(cuda.map(range + 2 * kPage, kPage, 0, one, 0) == kInvalid);      // inside a mapping
  CHECK(cuda.map(range + 7 * kPage, 2 * kPage, 0, two, 0) == kInvalid);  // past the range
  CHECK(cuda.map(range + 4 * kPage, kPage, 0, two, 0) == kInvalid);      // a part of a handle
  CHECK(cuda.map(range + 4 * kPage, kPage, kPage, two, 0) == kInvalid);  // an offset
  CHECK(cuda.map(range + 4 * kPage + 512, kPage, 0, one, 0) == kInvalid);
  CHECK(cuda.map(uintptr_t{1} << 46, kPage, 0, one, 0) == kInvalid);  // not reserved
  CHECK(cuda.map(range + 4 * kPage, kPage, 0, 999, 0) == kInvalid);   // no handle

  CHECK(cuda.allow(range + 3 * kPage, kPage) == kInvalid);  // nothing mapped
  CHECK(cuda.allow(range, 4 * kPage) == kInvalid);          // a gap at the end
  CHECK(cuda.allow(range + kPage, kPage) == kInvalid);      // a part of a mapping
  CHECK(cuda.allow(range + 2 * kPage, kPage) == kInvalid);  // begins inside one
  CHECK(cuda.allow(range, kPage, 0, 2) == kInvalid);        // no such flags
  CHECK(cuda.set_access(range, kPage, nullptr, 0) == kInvalid);

  CHECK(cuda.unmap(range, 2 * kPage) == kInvalid);          // ends inside a mapping
  CHECK(cuda.unmap(range + 2 * kPage, kPage) == kInvalid);  // begins inside one
  CHECK(cuda.unmap(range + 3 * kPage, kPage) == kInvalid);  // nothing mapped
  CHECK(cuda.unmap(range, 0) == kInvalid);
  CHECK(cuda.release_range(range, 8 * kPage) == kInvalid);  // mappings in it
  CHECK(cuda.release_range(range, 4 * kPage) == kInvalid);
  CHECK(cuda.release_range(range + kPage, kPage) == kInvalid);

  CHECK(cuda.machine.misuses.size() == 27);
  CHECK(cuda.machine.virtual_memory.mappings() == 2);
  CHECK(cuda.machine.memory(0).used_bytes() == 3 * kPage);
  CHECK(cuda.allow(range, 3 * kPage) == kOk);
  bytes_at(range)[3 * kPage - 1] = 1;
  CHECK(cuda.unmap(range, 3 * kPage) == kOk);   // several whole ones at once
  CHECK(cuda.unmap(range, kPage) == kInvalid);  // a second time
}

TEST_CASE("access is by device and must be set before memory is touched") {
  Driver cuda({.devices = 2});
  const auto range = cuda.reserved(kPage);
  REQUIRE(cuda.map(range, kPage, 0, cuda.created(kPage, 1), 0) == kOk);
  const driver::Location first{driver::kDevice, 0};
  const driver::Location second{driver::kDevice, 1};
  unsigned long long flags = 9;
  REQUIRE(cuda.get_access(&flags, &second, range) == kOk);
  CHECK(flags == 0);

  char buffer[16] = "text";
  constexpr int kIllegal = static_cast<int>(Error::kIllegalAddress);
  CHECK(cuda.mended(cuda.copy_to_device(range, buffer, sizeof buffer)) == kIllegal);
  CHECK(cuda.mended(cuda.copy_to_host(buffer, range, sizeof buffer)) == kIllegal);
  REQUIRE(cuda.allow(range, kPage, 1, 1) == kOk);
  CHECK(cuda.mended(cuda.copy_to_host(buffer, range, sizeof buffer)) == kIllegal);  // by device 0
  current_device() = 1;
  CHECK(cuda.copy_to_host(buffer, range, sizeof buffer) == kOk);
  CHECK(cuda.mended(cuda.copy_to_device(range, buffer, sizeof buffer)) == kIllegal);  // read only
  REQUIRE(cuda.allow(range, kPage, 1, 3) == kOk);
  CHECK(cuda.copy_to_device(range, buffer, sizeof buffer) == kOk);
  REQUIRE(cuda.get_access(&flags, &second, range) == kOk);
  CHECK(flags == 3);
  REQUIRE(cuda.get_access(&flags, &first, range) == kOk);
  CHECK(flags == 0);
  CHECK(cuda.mended(cuda.copy_to_device(range + kPage - 8, buffer, sizeof buffer)) ==
        kIllegal);  // past the end

  REQUIRE(cuda.unmap(range, kPage) == kOk);
  CHECK(cuda.mended(cuda.copy_to_device(range, buffer, sizeof buffer)) == kIllegal);
  current_device() = 0;
}

TEST_CASE("a copy between devices needs access for the one that runs it, or both named") {
  Driver cuda({.devices = 2});
  const auto here = cuda.reserved(kPage);
  const auto there = cuda.reserved(kPage);
  REQUIRE(cuda.map(here, kPage, 0, cuda.created(kPage, 0), 0) == kOk);
  REQUIRE(cuda.map(there, kPage, 0, cuda.created(kPage, 1), 0) == kOk);
  REQUIRE(cuda.allow(here, kPage, 0) == kOk);
  REQUIRE(cuda.allow(there, kPage, 1) == kOk);
  constexpr int kIllegal = static_cast<int>(Error::kIllegalAddress);
  CHECK(cuda.mended(cuda.copy_async(there, here, kPage, nullptr)) == kIllegal);
  CHECK(cuda.copy_between(there, driver::context(1), here, driver::context(0), kPage, nullptr) ==
        kOk);
  CHECK(cuda.mended(cuda.copy_between(there, driver::context(0), here, driver::context(1), kPage,
                                      nullptr)) == kIllegal);
  REQUIRE(cuda.allow(here, kPage, 1) == kOk);  // the other way round: device 1 may read here
  CHECK(cuda.mended(cuda.copy_async(there, here, kPage, nullptr)) == kIllegal);
  REQUIRE(cuda.allow(there, kPage, 0) == kOk);
  CHECK(cuda.copy_async(there, here, kPage, nullptr) == kOk);
}

TEST_CASE("devices without peers cannot be given access to each other's memory") {
  Driver cuda({.devices = 2, .peers = false});
  const auto range = cuda.reserved(kPage);
  REQUIRE(cuda.map(range, kPage, 0, cuda.created(kPage, 0), 0) == kOk);
  CHECK(cuda.allow(range, kPage, 1) == static_cast<int>(Error::kInvalidDevice));
  CHECK(cuda.allow(range, kPage, 0) == kOk);
}

TEST_CASE("a wall of mappings is out of memory, and moves by the setting") {
  Driver cuda({.mapping_limit = 2});
  const auto range = cuda.reserved(4 * kPage);
  const auto handle = cuda.created(kPage);
  REQUIRE(cuda.map(range, kPage, 0, handle, 0) == kOk);
  REQUIRE(cuda.map(range + kPage, kPage, 0, handle, 0) == kOk);
  CHECK(cuda.map(range + 2 * kPage, kPage, 0, handle, 0) == kOutOfMemory);
  CHECK(cuda.machine.virtual_memory.mappings() == 2);
  REQUIRE(cuda.unmap(range, kPage) == kOk);
  CHECK(cuda.map(range + 2 * kPage, kPage, 0, handle, 0) == kOk);
  cuda.machine.settings.mapping_limit = 3;
  CHECK(cuda.map(range, kPage, 0, handle, 0) == kOk);
}

TEST_CASE("an exported handle opens the same memory") {
  Driver cuda;
  const auto range = cuda.reserved(2 * kPage);
  const auto handle = cuda.created(kPage);
  REQUIRE(cuda.map(range, kPage, 0, handle, 0) == kOk);
  int file = -1;
  REQUIRE(cuda.export_file(&file, handle, 1, 0) == kOk);
  unsigned long long imported = 0;
  REQUIRE(cuda.import_file(&imported, reinterpret_cast<void*>(intptr_t{file}), 1) == kOk);
  close(file);
  REQUIRE(cuda.map(range + kPage, kPage, 0, imported, 0) == kOk);
  REQUIRE(cuda.allow(range, 2 * kPage) == kOk);
  std::strcpy(bytes_at(range), "shared");
  CHECK(std::string(bytes_at(range + kPage)) == "shared");
  CHECK(cuda.machine.memory(0).used_bytes() == kPage);
  CHECK(cuda.import_file(&imported, reinterpret_cast<void*>(intptr_t{-1}), 1) == kInvalid);
}

TEST_CASE("handles for other processes are file descriptors, and asking for others is no misuse") {
  Driver cuda;
  driver::AllocationProperties properties = Driver::on_device();
  unsigned long long handle = 0;
  properties.requested_handle_types = driver::kFileDescriptor;
  CHECK(cuda.create(&handle, kPage, &properties, 0) == kOk);
  constexpr int kNotSupported = static_cast<int>(Error::kNotSupported);
  constexpr int kFabric = 8;
  char exported[64];
  CHECK(cuda.export_file(exported, handle, kFabric, 0) == kNotSupported);
  properties.requested_handle_types = kFabric;
  CHECK(cuda.create(&handle, kPage, &properties, 0) == kNotSupported);
  CHECK(cuda.machine.memory(0).used_bytes() == kPage);
  CHECK(cuda.machine.misuses.empty());
}

TEST_CASE("the granularity is 2 MiB") {
  Driver cuda;
  const auto properties = Driver::on_device();
  size_t granularity = 0;
  REQUIRE(cuda.granularity(&granularity, &properties, 0) == kOk);
  CHECK(granularity == size_t{2} << 20);
}

TEST_CASE("80 GiB of handles and mappings cost no host memory until they are touched") {
  Driver cuda({.memory_bytes = {size_t{80} << 30}});
  constexpr size_t kHandle = 64 * kPage;
  const size_t count = (size_t{80} << 30) / kHandle;
  const auto range = cuda.reserved(count * kHandle);
  REQUIRE(range != 0);
  for (size_t i = 0; i < count; ++i) {
    const auto handle = cuda.created(kHandle);
    REQUIRE(cuda.map(range + i * kHandle, kHandle, 0, handle, 0) == kOk);
  }
  REQUIRE(cuda.allow(range, count * kHandle) == kOk);
  CHECK(cuda.created(kPage) == 0);
  bytes_at(range)[count * kHandle - 1] = 1;
  CHECK(cuda.machine.memory(0).used_bytes() == size_t{80} << 30);
}

}  // namespace
}  // namespace tidepool::fake_cuda
