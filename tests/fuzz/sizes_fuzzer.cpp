// Sizes as text: refused by std::invalid_argument, or exactly what the digits and the unit say.
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include "allocator/base/check.h"
#include "allocator/base/size_text.h"

namespace {

using tidepool::parse_size;
using Wide = unsigned __int128;

std::optional<size_t> parsed(const std::string& text, size_t whole_bytes) {
  try {
    return parse_size(text, whole_bytes);
  } catch (const std::invalid_argument& error) {
    TIDEPOOL_CHECK(error.what()[0] == '\'', "does not name the text: %s", error.what());
    return std::nullopt;
  }
}

// Of an accepted text: bytes·10^k <= digits·unit < (bytes + 1)·10^k.
void check_value(const std::string& text, size_t whole_bytes, size_t bytes) {
  static const std::map<std::string, uint64_t> units = {{"", 1},
                                                        {"B", 1},
                                                        {"KB", 1000},
                                                        {"MB", 1000000},
                                                        {"GB", 1000000000},
                                                        {"TB", 1000000000000},
                                                        {"KiB", 1 << 10},
                                                        {"MiB", 1 << 20},
                                                        {"GiB", 1 << 30},
                                                        {"TiB", uint64_t{1} << 40}};
  Wide digits = 0, divisor = 1;
  bool fraction = false;
  std::string unit;
  for (char c : text) {
    if (c >= '0' && c <= '9') {
      TIDEPOOL_CHECK(unit.empty(), "a digit behind '%s'", unit.c_str());
      digits = digits * 10 + static_cast<unsigned>(c - '0');
      if (fraction) divisor *= 10;
    } else if (c == '.') {
      TIDEPOOL_CHECK(!fraction && unit.empty(), "a point too many in '%s'", text.c_str());
      fraction = true;
    } else if (c != ' ' && (c < '\t' || c > '\r')) {
      unit += c;
    }
  }
  const Wide factor = unit == "%" ? Wide{whole_bytes} : Wide{units.at(unit)};
  if (unit == "%") divisor *= 100;
  const Wide exact = digits * factor;
  TIDEPOOL_CHECK(bytes * divisor <= exact && exact < (Wide{bytes} + 1) * divisor,
                 "'%s' of %zu is not %zu", text.c_str(), whole_bytes, bytes);
  TIDEPOOL_CHECK(unit != "%" || bytes <= whole_bytes, "%zu of %zu", bytes, whole_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const bool accepted = parsed(text, 1000).has_value();
  for (size_t whole_bytes : {size_t{0}, size_t{1}, size_t{1} << 33, SIZE_MAX}) {
    const std::optional<size_t> bytes = parsed(text, whole_bytes);
    TIDEPOOL_CHECK(bytes.has_value() == accepted, "'%s' depends on %zu", text.c_str(), whole_bytes);
    if (bytes) check_value(text, whole_bytes, *bytes);
  }
  TIDEPOOL_CHECK(parsed(" " + text + "\n", 1000) == parsed(text, 1000), "'%s'", text.c_str());
  return 0;
}
