#include "allocator/base/size_text.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace tidepool {
namespace {

struct Unit {
  const char* name;
  uint64_t bytes;
};
constexpr Unit kUnits[] = {
    {"", 1},
    {"B", 1},
    {"KB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
    {"KiB", uint64_t{1} << 10},
    {"MiB", uint64_t{1} << 20},
    {"GiB", uint64_t{1} << 30},
    {"TiB", uint64_t{1} << 40},
};
constexpr size_t kMostDigits = 18;  // of a number, so that no product below overflows 128 bits

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw std::invalid_argument(fmt::format("'{}': {}", text, why));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string lower(std::string_view text) {
  std::string made;
  for (char c : text) made += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return made;
}

// A decimal number, as a whole number and the power of ten to divide it by.
struct Number {
  uint64_t digits = 0;
  uint64_t divisor = 1;
  bool fraction = false;
};

// Takes the number off the front of `rest`.
Number take_number(std::string_view text, std::string_view& rest) {
  Number number;
  size_t count = 0;
  size_t used = 0;
  bool after_point = false;
  for (; used < rest.size() && (is_digit(rest[used]) || rest[used] == '.'); ++used) {
    if (rest[used] == '.') {
      if (after_point || count == 0) break;
      after_point = true;
      continue;
    }
    if (++count > kMostDigits) refuse(text, "more digits than a size can have");
    number.digits = number.digits * 10 + static_cast<uint64_t>(rest[used] - '0');
    if (after_point) {
      number.fraction = true;
      number.divisor *= 10;
    }
  }
  if (count == 0 || (after_point && !number.fraction)) {
    refuse(text, "expected a size such as 8GiB, 8GB, 8589934592 or 80%");
  }
  rest.remove_prefix(used);
  return number;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  return text;
}

const Unit& unit_of(std::string_view text, std::string_view name) {
  const std::string wanted = lower(name);
  std::string hint;
  for (const Unit& unit : kUnits) {
    if (name == unit.name) return unit;
    const std::string known = lower(unit.name);
    if (wanted == known || wanted + "b" == known || wanted + "ib" == known) {
      hint = fmt::format(", did you mean {}?", unit.name);
    }
  }
  refuse(text, fmt::format("unknown unit '{}'{} (known: B, KB, MB, GB, TB, KiB, MiB, GiB, TiB, %)",
                           name, hint));
}

}  // namespace

size_t parse_size(std::string_view text, size_t whole_bytes) {
  std::string_view rest = trimmed(text);
  const Number number = take_number(text, rest);
  rest = trimmed(rest);
  using Wide = unsigned __int128;
  if (rest == "%") {
    const Wide share = Wide{number.digits} * whole_bytes;
    const Wide bytes = share / number.divisor / 100;
    if (number.digits == 0 || Wide{number.digits} > Wide{number.divisor} * 100) {
      refuse(text, "a percentage must be above 0% and at most 100%");
    }
    return static_cast<size_t>(bytes);
  }
  const Unit& unit = unit_of(text, rest);
  if (rest.empty() && number.fraction) refuse(text, "plain bytes must be a whole number");
  const Wide bytes = Wide{number.digits} * unit.bytes / number.divisor;
  if (bytes > SIZE_MAX) refuse(text, "more than any memory has");
  return static_cast<size_t>(bytes);
}

}  // namespace tidepool
