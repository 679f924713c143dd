#include "remat/lineage/container_bytes.h"

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

TEST_CASE("a container takes what it has room for") {
  std::vector<uint64_t> numbers;
  CHECK(bytes_of(numbers) == 0);
  numbers.reserve(100);
  CHECK(bytes_of(numbers) == 800);
  absl::flat_hash_map<uint64_t, uint64_t> table;
  CHECK(bytes_of(table) == 0);
  table.reserve(100);
  CHECK(bytes_of(table) >= 1700);
  CHECK(bytes_of(table) < 4400);
}

}  // namespace
}  // namespace tidepool::remat
