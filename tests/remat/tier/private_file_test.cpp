#include "remat/tier/private_file.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

TEST_CASE("folders that cannot hold a file are named") {
  CHECK_THROWS_WITH(PrivateFile("/no/such/folder"), Catch::Matchers::Contains("/no/such/folder"));
  CHECK_THROWS_WITH(PrivateFile("/dev/shm"), Catch::Matchers::Contains("tmpfs"));
  CHECK_THROWS_AS(PrivateFile("/proc"), std::invalid_argument);
}

TEST_CASE("what was written at an offset is read there, and each file is another") {
  constexpr size_t kUnit = 4096;  // of direct transfers, as to where the memory begins
  const std::unique_ptr<char, decltype(&std::free)> memory(
      static_cast<char*>(std::aligned_alloc(kUnit, kUnit)), &std::free);
  const std::string folder = std::filesystem::current_path().string();
  PrivateFile first(folder), second(folder);
  for (PrivateFile* file : {&first, &second}) {
    std::memset(memory.get(), file == &first ? 'a' : 'b', kUnit);
    CHECK(file->write_at(3 * kUnit, memory.get(), kUnit) == kUnit);
  }
  CHECK(first.read_at(3 * kUnit, memory.get(), kUnit) == kUnit);
  CHECK(memory.get()[kUnit - 1] == 'a');
  CHECK(first.read_at(2 * kUnit, memory.get(), kUnit) == kUnit);
  CHECK(memory.get()[0] == 0);
  CHECK(first.read_at(4 * kUnit, memory.get(), kUnit) == 0);
}

TEST_CASE("transfers that cannot be direct pass through the cache") {
  PrivateFile file(std::filesystem::current_path().string());
  char read[4] = {};
  CHECK(file.write_at(1, "abc", 3) == 3);  // a direct one would have to begin and end at sectors
  CHECK(file.read_at(1, read, 3) == 3);
  CHECK(std::string(read) == "abc");
}

}  // namespace
}  // namespace tidepool::remat
