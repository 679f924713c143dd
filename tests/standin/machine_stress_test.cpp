// Threads on one stand-in device: each with a stream and memory of its own, all through one lock.
#include <thread>
#include <vector>

#include "tests/standin/driver.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda/control.h"

namespace tidepool::fake_cuda {
namespace {

TEST_CASE("threads that use the device at once leave it clean", "[stress]") {
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  Driver cuda;
  std::vector<int> failures(kThreads);
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      use_context(0);
      void* const stream = cuda.stream();
      void* const event = cuda.event();
      const auto range = cuda.reserved(kPage);
      for (int round = 0; round < kRounds; ++round) {
        const auto handle = cuda.created(kPage);
        int& failed = failures[static_cast<size_t>(number)];
        failed += cuda.map(range, kPage, 0, handle, 0) != kOk;
        failed += cuda.allow(range, kPage) != kOk;
        void* const start = reinterpret_cast<void*>(range);
        fake_cuda_range_allocated(start, kPage, stream);
        failed += cuda.fill_async(range, 1, 64, stream) != kOk;
        failed += cuda.record(event, stream) != kOk;
        fake_cuda_range_freed(start);
        failed += cuda.synchronize(event) != kOk;
        failed += cuda.unmap(range, kPage) != kOk;
        failed += cuda.release(handle) != kOk;
      }
      cuda.release_range(range, kPage);
      cuda.destroy_event(event);
      cuda.destroy_stream(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == std::vector<int>(kThreads));
  CHECK(cuda.machine.misuses.empty());
  CHECK(cuda.machine.races.races().empty());
  CHECK(fake_cuda_used_bytes(0) == 0);
  CHECK(fake_cuda_calls("map") == kThreads * kRounds);
  for (const char* const what : {"streams", "events", "handles", "mappings", "reservations"}) {
    CHECK(fake_cuda_live(what) == 0);
  }
}

}  // namespace
}  // namespace tidepool::fake_cuda
