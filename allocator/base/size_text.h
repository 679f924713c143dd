// parse_size(): reads sizes as a user writes them: 8GiB, 8GB, 8589934592, 80%. It takes the same
// language as bindings/python/tidepool/settings/_sizes.py, for libraries that no Python calls.
// Pure; thread safe.
#pragma once

#include <cstddef>
#include <string_view>

namespace tidepool {

// The bytes that `text` means, rounded down; a percentage is taken of `whole_bytes`.
// Throws: std::invalid_argument that says what is wrong with the text and what was expected.
size_t parse_size(std::string_view text, size_t whole_bytes);

}  // namespace tidepool
