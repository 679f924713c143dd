#include "cuda/streams/stream_table.h"

#include <thread>

#include "tests/support/catch.h"
#include "tests/support/death.h"

namespace tidepool::device {
namespace {

driver::Stream stream_at(size_t number) {
  return reinterpret_cast<driver::Stream>(0x7f0000000000 + number * 0x1230);
}

TEST_CASE("the default stream is number 0 by both its names, others are counted as they come") {
  StreamTable table;
  CHECK(table.id_of(nullptr) == StreamId::kDefault);
  CHECK(table.id_of(reinterpret_cast<driver::Stream>(uintptr_t{1})) == StreamId::kDefault);
  CHECK(table.id_of(stream_at(5)) == StreamId{1});
  CHECK(table.id_of(stream_at(2)) == StreamId{2});
  CHECK(table.id_of(stream_at(5)) == StreamId{1});
  CHECK(table.stream_of(StreamId{2}) == stream_at(2));
  CHECK(table.stream_of(StreamId::kDefault) == nullptr);
  CHECK(table.count() == 3);
}

TEST_CASE("thousands of streams keep their numbers while the table grows") {
  StreamTable table;
  constexpr size_t kStreams = 5000;
  for (size_t i = 0; i < kStreams; ++i) {
    REQUIRE(table.id_of(stream_at(i)) == static_cast<StreamId>(i + 1));
  }
  for (size_t i = 0; i < kStreams; ++i) {
    REQUIRE(table.id_of(stream_at(i)) == static_cast<StreamId>(i + 1));
    REQUIRE(table.stream_of(static_cast<StreamId>(i + 1)) == stream_at(i));
  }
}

TEST_CASE("threads that meet a stream at once agree on its number") {
  StreamTable table;
  constexpr size_t kThreads = 4, kStreams = 2000;
  std::vector<std::vector<StreamId>> seen(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < kStreams; ++i) seen[t].push_back(table.id_of(stream_at(i)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 1; t < kThreads; ++t) CHECK(seen[t] == seen[0]);
  CHECK(table.count() == kStreams + 1);
}

TEST_CASE("a number that was never given is the caller's bug") {
  StreamTable table;
  CHECK(tidepool::test::dies([&] { table.stream_of(StreamId{7}); }));
}

}  // namespace
}  // namespace tidepool::device
