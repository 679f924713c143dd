// What an error says.
#pragma once

#include <string>
#include <utility>

namespace tidepool::test {

// What the call's error of that kind says; "" if there is none.
template <typename Error, typename Call>
std::string refusal_by(Call&& call) {
  try {
    std::forward<Call>(call)();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace tidepool::test
