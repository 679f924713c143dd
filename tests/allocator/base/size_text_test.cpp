#include "allocator/base/size_text.h"

#include <stdexcept>
#include <string>

#include "allocator/base/sizes.h"
#include "tests/support/catch.h"

namespace tidepool {
namespace {

constexpr size_t kWhole = 10 * kGiB;

// True if `text` is refused with an error that contains `words`.
bool refused(const char* text, const char* words) {
  try {
    (void)parse_size(text, kWhole);
  } catch (const std::invalid_argument& error) {
    return std::string(error.what()).find(words) != std::string::npos;
  }
  return false;
}

TEST_CASE("sizes as users write them") {
  CHECK(parse_size("8GiB", kWhole) == 8 * kGiB);
  CHECK(parse_size("8GB", kWhole) == 8'000'000'000);
  CHECK(parse_size(" 1.5 MiB ", kWhole) == 3 * kMiB / 2);
  CHECK(parse_size("8589934592", kWhole) == 8 * kGiB);
  CHECK(parse_size("0", kWhole) == 0);
  CHECK(parse_size("12B", kWhole) == 12);
  CHECK(parse_size("0.3KiB", kWhole) == 307);
  CHECK(parse_size("80%", kWhole) == 8 * kGiB);
  CHECK(parse_size("12.5%", kWhole) == kWhole / 8);
  CHECK(parse_size("100 %", kWhole) == kWhole);
  CHECK(parse_size("100%", SIZE_MAX) == SIZE_MAX);
}

TEST_CASE("what is no size is refused, named, and corrected where it can be") {
  CHECK(refused("", "expected a size such as 8GiB"));
  CHECK(refused("-1GiB", "'-1GiB'"));
  CHECK(refused("GiB", "expected a size"));
  CHECK(refused("1.GiB", "expected a size"));
  CHECK(refused("1.5", "whole number"));
  CHECK(refused("1.2.3GiB", "unknown unit '.3GiB'"));
  CHECK(refused("8gib", "did you mean GiB?"));
  CHECK(refused("8G", "did you mean GiB?"));
  CHECK(refused("8parsecs", "unknown unit 'parsecs'"));
  CHECK(refused("0%", "above 0%"));
  CHECK(refused("101%", "at most 100%"));
  CHECK(refused("99999999TiB", "more than any memory has"));
  CHECK(refused("1234567890123456789", "more digits"));
}

}  // namespace
}  // namespace tidepool
