// The main function of tidepool_allocator_bench: Google Benchmark's, and
//   --smoke            runs each benchmark for a moment only, to show that it works
//   --trace=FILE       replays a log of requests as well (docs/benchmarks.md); may be repeated
#include <benchmark/benchmark.h>

#include <cstdio>
#include <exception>
#include <string_view>
#include <vector>

#include "bench/allocator/replay_benches.h"

int main(int argc, char** argv) {
  constexpr std::string_view kTrace = "--trace=";
  char shortest[] = "--benchmark_min_time=0.001";
  std::vector<char*> arguments;
  try {
    for (int k = 0; k < argc; ++k) {
      const std::string_view argument = argv[k];
      if (argument == "--smoke") {
        arguments.push_back(shortest);
      } else if (argument.starts_with(kTrace)) {
        tidepool::bench::register_file(std::string(argument.substr(kTrace.size())));
      } else {
        arguments.push_back(argv[k]);
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tidepool_allocator_bench: %s\n", error.what());
    return 2;
  }
  tidepool::bench::register_synthetic();
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
