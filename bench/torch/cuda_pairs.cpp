// What one allocation and free cost through PyTorch's CUDA allocator class (raw_alloc, raw_delete):
// PyTorch's own allocator and Tidepool's, in one process, in turns. Prints a line of JSON per case.
//   cuda_pairs PLUGIN BATCHES PAIRS: in each batch so many pairs of each allocator.
// bench/cuda_pairs.py runs it on the stand-in CUDA device. Times are of the host's thread.
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "bench/torch/cuda_session.h"

namespace {

using tidepool::bench::CUDAAllocator;
using tidepool::bench::die;
using tidepool::bench::thread_ns;
using tidepool::bench::wall_ns;

struct Case {
  size_t bytes = 0;
  size_t live = 0;
  size_t threads = 1;
};

// Blocks of mixed sizes that stay, up to 64 KiB.
std::vector<void*> fill(CUDAAllocator& allocator, size_t live) {
  std::vector<void*> blocks;
  for (size_t k = 0; k < live; ++k) {
    blocks.push_back(allocator.raw_alloc(512 + k * 0x9e3779b97f4a7c15u % 65536 / 512 * 512));
  }
  return blocks;
}

void pairs(CUDAAllocator& allocator, size_t bytes, size_t count) {
  for (size_t k = 0; k < count; ++k) allocator.raw_delete(allocator.raw_alloc(bytes));
}

// Nanoseconds per pair: the thread's own where there is one, on the wall where they wait for each
// other (each thread then does `count` pairs).
double batch(CUDAAllocator& allocator, const Case& each, size_t count) {
  if (each.threads == 1) {
    const double start = thread_ns();
    pairs(allocator, each.bytes, count);
    return (thread_ns() - start) / static_cast<double>(count);
  }
  std::barrier meet(static_cast<std::ptrdiff_t>(each.threads));
  std::vector<double> starts(each.threads);
  std::vector<double> ends(each.threads);
  std::vector<std::thread> threads;
  for (size_t k = 0; k < each.threads; ++k) {
    threads.emplace_back([&, k] {
      c10::cuda::set_device(0);
      pairs(allocator, each.bytes, 16);  // its first calls set it up
      meet.arrive_and_wait();
      starts[k] = wall_ns();
      pairs(allocator, each.bytes, count);
      ends[k] = wall_ns();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return (*std::max_element(ends.begin(), ends.end()) -
          *std::min_element(starts.begin(), starts.end())) /
         static_cast<double>(count);
}

void print(const char* name, const std::vector<double>& samples) {
  std::printf(", \"%s\": [", name);
  for (size_t k = 0; k < samples.size(); ++k) std::printf("%s%.2f", k ? ", " : "", samples[k]);
  std::printf("]");
}

void run(CUDAAllocator& native, CUDAAllocator& ours, const Case& each, size_t batches,
         size_t count) {
  const std::vector<void*> native_blocks = fill(native, each.live);
  const std::vector<void*> our_blocks = fill(ours, each.live);
  std::vector<double> native_ns;
  std::vector<double> our_ns;
  (void)batch(native, each, count);
  (void)batch(ours, each, count);
  for (size_t k = 0; k < batches; ++k) {
    const bool swap = k % 2 == 1;
    if (swap) our_ns.push_back(batch(ours, each, count));
    native_ns.push_back(batch(native, each, count));
    if (!swap) our_ns.push_back(batch(ours, each, count));
  }
  std::printf("{\"bytes\": %zu, \"live\": %zu, \"threads\": %zu", each.bytes, each.live,
              each.threads);
  print("native", native_ns);
  print("ours", our_ns);
  std::printf("}\n");
  std::fflush(stdout);
  for (void* block : native_blocks) native.raw_delete(block);
  for (void* block : our_blocks) ours.raw_delete(block);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) die("usage: cuda_pairs PLUGIN BATCHES PAIRS");
  const auto batches = std::strtoul(argv[2], nullptr, 10);
  const auto count = std::strtoul(argv[3], nullptr, 10);
  if (batches == 0 || count == 0) die("BATCHES and PAIRS are numbers above 0");
  const auto session = tidepool::bench::start_cuda(argv[1]);
  for (size_t threads : {1, 2}) {
    for (size_t live : {100, 1000, 10000}) {
      for (size_t bytes : {size_t{512}, size_t{256} << 10, size_t{2} << 20, size_t{32} << 20}) {
        run(*session.native, *session.ours, {bytes, live, threads}, batches, count);
      }
    }
  }
  std::fflush(stdout);
  _Exit(0);  // as Python jobs end: PyTorch's statics are not torn down under our blocks
}
