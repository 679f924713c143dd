// A program that uses the installed library for programs on LibTorch, but has no LibTorch: it exits
// with 0 if it is told so, and if a wrong setting is named.
#include <tidepool/tidepool.h>

#include <cstdio>
#include <string>

namespace {
bool is_refused(const tidepool::Options& options, int code, const std::string& message) {
  try {
    tidepool::enable(options);
  } catch (const tidepool::Error& error) {
    std::printf("%d: %s\n", error.code, error.what());
    return error.code == code && std::string(error.what()).find(message) != std::string::npos;
  }
  return false;
}
}  // namespace

int main() {
  if (!is_refused({.budget = "8GiB"}, TIDEPOOL_CANNOT_ATTACH, "not linked with LibTorch")) return 1;
  if (!is_refused({.budget = "8gib"}, TIDEPOOL_WRONG_SETTING, "did you mean GiB")) return 2;
  const tidepool::NoEviction nothing_to_do;
  tidepool::step();
  return tidepool::statistics_json().empty() ? 0 : 3;
}
