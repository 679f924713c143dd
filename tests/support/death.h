// dies(): runs code in a forked child and tells how it ended, for checks that abort the process.
#pragma once

#include <functional>
#include <string>

namespace tidepool::test {

// True if `code` aborts the child; `*message` is what it wrote to stderr.
// Requires: no other thread runs in this process.
bool dies(const std::function<void()>& code, std::string* message = nullptr);

// The exit status of a forked child that runs `code`, or 128 + the signal that ended it.
int status_of_child(const std::function<int()>& code);

}  // namespace tidepool::test
