// Lists of names that are known when the plugin is built.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace tidepool::torch_glue {

// Whether a list has this name.
template <size_t N>
bool lists(const std::array<const char*, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace tidepool::torch_glue
