// Benchmarks that replay traces: made at run time, because files are named on the command line.
#pragma once

#include <string>

namespace tidepool::bench {

// Throws: std::runtime_error: "FILE:LINE: reason".
void register_file(const std::string& path);
// Traces that are made up here, the same in every run.
void register_synthetic();

}  // namespace tidepool::bench
