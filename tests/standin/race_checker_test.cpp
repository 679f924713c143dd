// The race checker: what it must report, and what it must not.
#include "tests/support/fake_cuda/core/race_checker.h"

#include <vector>

#include "tests/standin/driver.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda/control.h"
#include "tests/support/fake_cuda/core/stream_calls.h"

namespace tidepool::fake_cuda {
namespace {

// Two streams, and a range that was used on the first and freed.
struct Scene {
  explicit Scene(const Settings& settings = {}) : cuda(settings) {
    fake_cuda_range_allocated(range, kBytes, first);
    cuda.run_kernel(first);
  }

  std::vector<Race::Kind> kinds() const {
    std::vector<Race::Kind> found;
    for (const Race& race : cuda.machine.races.races()) found.push_back(race.kind);
    return found;
  }
  bool is_clean() const { return cuda.machine.races.races().empty(); }
  void free() { fake_cuda_range_freed(range); }
  void reuse_on(void* stream) {
    fake_cuda_range_allocated(range, kBytes, stream);
    cuda.run_kernel(stream);
  }
  // What comes later on `later` is ordered after what is on `earlier` now.
  void order(void* earlier, void* later) {
    cuda.record(event, earlier);
    cuda.wait(later, event, 0);
  }

  static constexpr size_t kBytes = 512;
  Driver cuda;
  void* const first = cuda.stream();
  void* const second = cuda.stream();
  void* const third = cuda.stream();
  void* const event = cuda.event();
  char* const range = reinterpret_cast<char*>(uintptr_t{1} << 40);
};

const std::vector<Race::Kind> kOneReuse{Race::Kind::kReuse};

TEST_CASE("memory used again on its own stream is ordered") {
  Scene scene;
  scene.free();
  scene.reuse_on(scene.first);
  CHECK(scene.is_clean());
}

TEST_CASE("memory used again on another stream without an order is a race") {
  Scene scene;
  scene.free();
  scene.reuse_on(scene.second);
  REQUIRE(scene.kinds() == kOneReuse);
  const Race& race = scene.cuda.machine.races.races()[0];
  CHECK(race.address == reinterpret_cast<uintptr_t>(scene.range));
  CHECK(race.earlier == scene.cuda.machine.order.stream(scene.first, 0).id);
  CHECK(race.earlier_tick == 1);
  CHECK(describe(race).find("unordered after operation 1 of stream 1") != std::string::npos);
}

TEST_CASE("an order by event, through a third stream or through the host, makes it none") {
  Scene scene({.late_queries = kOnlyWhenAsked});
  scene.free();
  SECTION("event") { scene.order(scene.first, scene.second); }
  SECTION("third stream") {
    scene.order(scene.first, scene.third);
    scene.order(scene.third, scene.second);
  }
  SECTION("host waits for the event") {
    scene.cuda.record(scene.event, scene.first);
    scene.cuda.synchronize(scene.event);
  }
  SECTION("host waits for the stream") { scene.cuda.synchronize_stream(scene.first); }
  SECTION("host waits for the device") { scene.cuda.synchronize_device(); }
  SECTION("host learns it by asking") {
    scene.cuda.record(scene.event, scene.first);
    fake_cuda_complete(scene.first);
    CHECK(scene.cuda.query(scene.event) == kOk);
  }
  SECTION("the order is made after the allocation, before the use") {
    fake_cuda_range_allocated(scene.range, Scene::kBytes, scene.second);
    scene.order(scene.first, scene.second);
    scene.cuda.run_kernel(scene.second);
    scene.free();
  }
  scene.reuse_on(scene.second);
  CHECK(scene.is_clean());
}

TEST_CASE("what does not order the use leaves a race") {
  Scene scene({.late_queries = kOnlyWhenAsked});
  SECTION("an event of before the use") {
    scene.order(scene.first, scene.second);
    scene.cuda.run_kernel(scene.first);
    scene.free();
  }
  SECTION("the order the other way round") {
    scene.free();
    scene.order(scene.second, scene.first);
  }
  SECTION("a query that said no") {
    scene.free();
    scene.cuda.record(scene.event, scene.first);
    CHECK(scene.cuda.query(scene.event) == kNotReadyCode);
  }
  SECTION("the device is done, but nobody knows") {
    scene.free();
    fake_cuda_complete(scene.first);
  }
  SECTION("the host waits for another stream") {
    scene.free();
    scene.cuda.synchronize_stream(scene.second);
  }
  scene.reuse_on(scene.second);
  CHECK(scene.kinds() == kOneReuse);
}

TEST_CASE("an order of after the first use comes too late") {
  Scene scene;
  scene.free();
  scene.reuse_on(scene.second);
  scene.order(scene.first, scene.second);
  scene.cuda.run_kernel(scene.second);
  CHECK(scene.kinds() == kOneReuse);
}

TEST_CASE("an event's record is no use of what its stream owns") {
  Scene scene;
  scene.order(scene.first, scene.second);
  scene.cuda.record(scene.cuda.event(), scene.first);
  scene.free();
  scene.reuse_on(scene.second);
  CHECK(scene.is_clean());
}

TEST_CASE("work of before the range was owned is no use of it") {
  Scene scene;
  char* const other = scene.range + 4096;
  fake_cuda_range_allocated(other, Scene::kBytes, scene.first);
  fake_cuda_range_freed(other);  // no operation in between
  fake_cuda_range_allocated(other, Scene::kBytes, scene.second);
  scene.cuda.run_kernel(scene.second);
  CHECK(scene.is_clean());
}

TEST_CASE("a range shared with another stream waits for that stream too") {
  Scene scene;
  scene.cuda.run_kernel(scene.second);  // uses the range, then says so, as record_stream is called
  fake_cuda_range_shared(scene.range, scene.second);
  SECTION("and its owner does not know") {
    scene.free();
    scene.reuse_on(scene.first);
    CHECK(scene.kinds() == kOneReuse);
  }
  SECTION("which its owner has waited for") {
    scene.order(scene.second, scene.first);
    scene.free();
    scene.reuse_on(scene.first);
    CHECK(scene.is_clean());
  }
  SECTION("with what it did up to the end") {
    scene.order(scene.second, scene.first);
    scene.cuda.run_kernel(scene.second);
    scene.free();
    scene.reuse_on(scene.first);
    CHECK(scene.kinds() == kOneReuse);
  }
}

TEST_CASE("an operand counts on whatever stream, without being shared") {
  Scene scene;
  scene.order(scene.first, scene.second);
  scene.cuda.run_kernel(scene.second);
  fake_cuda_range_used(scene.range + 8, 16, scene.second);
  scene.free();
  SECTION("unordered") {
    scene.reuse_on(scene.first);
    CHECK(scene.kinds() == kOneReuse);
  }
  SECTION("ordered") {
    scene.order(scene.second, scene.first);
    scene.reuse_on(scene.first);
    CHECK(scene.is_clean());
  }
}

TEST_CASE("the operands of a copy are known by themselves") {
  Scene scene;
  driver::DeviceAddress memory = 0;
  REQUIRE(scene.cuda.allocate(&memory, kPage) == kOk);
  void* const start = reinterpret_cast<void*>(memory);
  fake_cuda_range_allocated(start, 4096, scene.first);
  scene.cuda.copy_async(memory + 8192, memory, 64, scene.second);
  fake_cuda_range_freed(start);
  SECTION("and race with a reuse") {
    fake_cuda_range_allocated(start, 64, scene.first);
    scene.cuda.run_kernel(scene.first);
    CHECK(scene.kinds() == kOneReuse);
  }
  SECTION("and must not be freed") {
    scene.cuda.fill_async(memory + 100, 0, 8, scene.second);
    CHECK(scene.kinds() == std::vector{Race::Kind::kUsedAfterFree});
  }
}

TEST_CASE("a part of a range, and a range over several, inherit what they lie on") {
  Scene scene;
  char* const next = scene.range + Scene::kBytes;
  fake_cuda_range_allocated(next, Scene::kBytes, scene.third);
  scene.cuda.run_kernel(scene.third);
  fake_cuda_range_freed(next);
  scene.free();
  SECTION("over both") {
    fake_cuda_range_allocated(scene.range + 256, Scene::kBytes, scene.second);
    scene.cuda.run_kernel(scene.second);
    CHECK(scene.kinds().size() == 2);
    fake_cuda_range_allocated(scene.range, 256, scene.second);  // what was left in front
    scene.cuda.run_kernel(scene.second);
    CHECK(scene.kinds().size() == 3);
  }
  SECTION("over the one that is ordered") {
    scene.order(scene.third, scene.second);
    fake_cuda_range_allocated(next + 16, 32, scene.second);
    scene.cuda.run_kernel(scene.second);
    CHECK(scene.is_clean());
  }
}

TEST_CASE("uses live on through an owner that never used the range") {
  Scene scene;
  scene.free();
  fake_cuda_range_allocated(scene.range, Scene::kBytes, scene.second);
  scene.free();
  SECTION("to a race") {
    scene.reuse_on(scene.third);
    CHECK(scene.kinds() == kOneReuse);
  }
  SECTION("to the stream of the use") {
    scene.reuse_on(scene.first);
    CHECK(scene.is_clean());
  }
}

TEST_CASE("memory goes back to the device only when the host knows that it is not used") {
  Scene scene;
  const auto range = scene.cuda.reserved(2 * kPage);
  const auto handle = scene.cuda.created(kPage);
  scene.cuda.map(range, kPage, 0, handle, 0);
  void* const start = reinterpret_cast<void*>(range + 4096);
  fake_cuda_range_allocated(start, 4096, scene.first);
  scene.cuda.run_kernel(scene.first);
  SECTION("it was not freed") {
    REQUIRE(scene.cuda.unmap(range, kPage) == kOk);
    CHECK(scene.kinds() == std::vector{Race::Kind::kReturned, Race::Kind::kReturned});
  }
  SECTION("its use was not waited for") {
    fake_cuda_range_freed(start);
    REQUIRE(scene.cuda.unmap(range, kPage) == kOk);
    CHECK(scene.kinds() == std::vector{Race::Kind::kReturned});
  }
  SECTION("the wrong stream was waited for") {
    fake_cuda_range_freed(start);
    scene.cuda.synchronize_stream(scene.second);
    REQUIRE(scene.cuda.unmap(range, kPage) == kOk);
    CHECK(scene.kinds() == std::vector{Race::Kind::kReturned});
  }
  SECTION("it was waited for, and the addresses are used anew") {
    fake_cuda_range_freed(start);
    scene.cuda.synchronize_stream(scene.first);
    REQUIRE(scene.cuda.unmap(range, kPage) == kOk);
    REQUIRE(scene.cuda.map(range, kPage, 0, handle, 0) == kOk);
    fake_cuda_range_allocated(start, 4096, scene.second);
    scene.cuda.run_kernel(scene.second);
    CHECK(scene.is_clean());
  }
}

TEST_CASE("freeing an allocation waits for the device by itself") {
  Scene scene;
  driver::DeviceAddress memory = 0;
  REQUIRE(scene.cuda.allocate(&memory, kPage) == kOk);
  void* const start = reinterpret_cast<void*>(memory);
  fake_cuda_range_allocated(start, 64, scene.second);
  scene.cuda.run_kernel(scene.second);
  fake_cuda_range_freed(start);
  REQUIRE(scene.cuda.free(memory) == kOk);
  CHECK(scene.is_clean());
}

TEST_CASE("a graph's replay uses what its captured streams own") {
  Scene scene;
  void* graph = nullptr;
  void* executable = nullptr;
  calls::capture_begin("begin", scene.third, 2);
  fake_cuda_range_allocated(scene.range + 4096, Scene::kBytes, scene.third);
  scene.cuda.run_kernel(scene.third);
  calls::capture_end("end", scene.third, &graph);
  calls::graph_instantiate("instantiate", &executable, graph);
  calls::graph_launch("launch", executable, scene.second);
  fake_cuda_range_freed(scene.range + 4096);
  SECTION("unordered") {
    fake_cuda_range_allocated(scene.range + 4096, Scene::kBytes, scene.third);
    scene.cuda.run_kernel(scene.third);
    CHECK(scene.kinds() == kOneReuse);
  }
  SECTION("ordered") {
    scene.order(scene.second, scene.third);
    fake_cuda_range_allocated(scene.range + 4096, Scene::kBytes, scene.third);
    scene.cuda.run_kernel(scene.third);
    CHECK(scene.is_clean());
  }
}

TEST_CASE("ranges that are declared twice, or freed without being declared, are told") {
  Scene scene;
  fake_cuda_range_allocated(scene.range + 100, 8, scene.first);
  fake_cuda_range_freed(scene.range + 100);
  CHECK(scene.kinds() == std::vector{Race::Kind::kMisdeclared, Race::Kind::kMisdeclared});
  fake_cuda_range_used(scene.range + (1 << 20), 8, scene.second);  // nobody's: of no interest
  fake_cuda_range_shared(scene.range + (1 << 20), scene.second);
  CHECK(scene.kinds().size() == 2);
}

TEST_CASE("an operand comes after its write, and a write after what was an operand") {
  Scene scene;
  scene.cuda.run_kernel(scene.first);
  const auto use = [&](void* stream, size_t at = 0) {
    scene.cuda.run_kernel(stream);
    fake_cuda_range_used(scene.range + at, 64, stream);
  };
  const auto write = [&](void* stream, size_t at = 0) {
    scene.cuda.run_kernel(stream);
    fake_cuda_range_written(scene.range + at, 64, stream);
  };
  const std::vector<Race::Kind> kOneUnordered{Race::Kind::kUnordered};
  SECTION("used before its write is over") {
    write(scene.first);
    use(scene.second);
    CHECK(scene.kinds() == kOneUnordered);
  }
  SECTION("used after it") {
    write(scene.first);
    scene.order(scene.first, scene.second);
    use(scene.second);
    CHECK(scene.is_clean());
  }
  SECTION("written on the stream of the use") {
    write(scene.first);
    use(scene.first);
    CHECK(scene.is_clean());
  }
  SECTION("another part is written") {
    write(scene.first);
    use(scene.second, 64);
    CHECK(scene.is_clean());
  }
  SECTION("written before a use is over") {
    use(scene.first);
    write(scene.second);
    CHECK(scene.kinds() == kOneUnordered);
  }
  SECTION("written twice") {
    write(scene.first);
    write(scene.second);
    CHECK(scene.kinds().size() >= 1);
  }
  SECTION("written again in order: only the newest write counts") {
    write(scene.first);
    scene.order(scene.first, scene.second);
    write(scene.second);
    scene.order(scene.second, scene.third);
    use(scene.third);
    CHECK(scene.is_clean());
  }
}

}  // namespace
}  // namespace tidepool::fake_cuda
