// BudgetedAllocator on a device with streams: what is waited for, how often, and what never. Cases
// named "(like #…)" are of a bug that PyTorch's allocator has had.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "allocator/base/sizes.h"
#include "tests/support/catch.h"
#include "tests/support/death.h"
#include "tests/support/stream_world.h"

namespace tidepool {
namespace {

using test::FakeOwner;
using test::FakeReclaimer;

constexpr size_t kPage = test::StreamWorld::kPage;
constexpr StreamId kA{0}, kB{1}, kC{2};

struct World : test::StreamWorld {
  explicit World(size_t budget_pages = 16, bool allow_remap = true)
      : World(config(budget_pages, allow_remap)) {}
  explicit World(const AllocatorConfig& config) : StreamWorld(3, config) {}

  // A block on which its stream has work to do.
  char* take(StreamId stream, size_t bytes) {
    auto* address =
        static_cast<char*>(allocator.allocate(bytes, PlacementHint::kTransient, stream));
    CHECK(streams.launch(stream, Address::of(address), bytes).empty());
    return address;
  }
  void use(StreamId user, void* address, size_t bytes) {
    allocator.record_stream(address, user);
    (void)streams.launch(user, Address::of(address), bytes);
  }
  FakeOwner* adopt(void* address, size_t bytes, uint64_t price) {
    FakeOwner* owner = reclaimer.add(address, bytes, price);
    DeviceLock lock(mutex);
    allocator.set_owner(address, FakeReclaimer::as_owner(owner));
    return owner;
  }
  AllocatorStatistics statistics() const { return allocator.statistics(); }
  size_t asked() const {
    return streams.records + streams.waits + streams.host_waits + streams.queries +
           streams.finishes;
  }
};

TEST_CASE("a stream reuses its own memory without asking the device anything") {
  World world;
  for (size_t bytes : {size_t{512}, kPage / 2, 3 * kPage}) {
    char* first = world.take(kB, bytes);
    world.allocator.free(first);
    CHECK(world.take(kB, bytes) == first);
    world.allocator.free(first);
  }
  CHECK(world.asked() == 0);
}

TEST_CASE("recording the block's own stream changes nothing") {
  World world;
  char* block = world.take(kB, kPage);
  world.allocator.record_stream(block, kB);
  world.allocator.free(block);
  CHECK(world.statistics().awaiting_bytes == 0);
  CHECK(world.take(kB, kPage) == block);
}

TEST_CASE("a use that is known to have ended is waited for, and what came later is not") {
  World world(2);
  char* const block = world.take(kA, kPage);
  char* const other = world.take(kB, kPage);
  (void)world.streams.launch(kB, Address::of(block), kPage);
  {
    DeviceLock lock(world.mutex);
    world.allocator.record_use_locked(block, world.allocator.use_so_far(kB));
    CHECK(world.allocator.users(block) == std::vector{kA, kB});
    world.allocator.close_uses_locked(kB, world.streams.record(kB));
  }
  (void)world.streams.launch(kB, Address::of(other), kPage);
  world.allocator.free(block);
  CHECK(world.take(kA, kPage) == block);                                     // which does not race
  CHECK_FALSE(world.streams.launch(kA, Address::of(other), kPage).empty());  // no wait for that
}

TEST_CASE("who comes after a block's own stream comes after the uses that it has waited for") {
  World world;
  char* const block = world.take(kA, kPage);
  (void)world.streams.launch(kB, Address::of(block), kPage);
  DeviceLock lock(world.mutex);
  const StreamUse use = world.allocator.use_so_far(kB);
  world.allocator.record_use_locked(block, use);
  world.allocator.order_after(kA, use, lock);
  CHECK(world.allocator.users(block) == std::vector{kA});
  world.allocator.record_stream_locked(block, kB);  // it goes on using the block
  CHECK(world.allocator.users(block) == std::vector{kA, kB});
}

TEST_CASE("while the budget is ample, new pages come before another stream's memory in use") {
  World world;
  char* block = world.take(kA, 4 * kPage);
  world.allocator.free(block);
  char* other = world.take(kB, 4 * kPage);
  CHECK(other != block);
  CHECK(world.streams.waits == 0);
  CHECK(world.statistics().lent == 0);
}

TEST_CASE("another stream's memory is taken as it is once its work is known to be done") {
  World world;
  char* block = world.take(kA, 4 * kPage);
  world.allocator.free(block);
  world.streams.progress_all();
  CHECK(world.take(kB, 4 * kPage) == block);
  CHECK(world.streams.waits == 0);
  CHECK(world.statistics().reserved_bytes == 4 * kPage);
}

TEST_CASE("when the budget is spent the stream waits for the other, once for all that is free") {
  World world;
  std::vector<char*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(world.take(kA, 4 * kPage));
  char* kept = blocks[1];
  for (char* block : blocks) {
    if (block != kept) world.allocator.free(block);
  }
  CHECK(world.take(kB, 4 * kPage) == blocks[0]);
  CHECK(world.streams.waits == 1);
  CHECK(world.statistics().lent == 1);
  // Freed before the same fence: nothing more to wait for.
  world.take(kB, 4 * kPage);
  CHECK(world.streams.waits == 1);
  CHECK(world.streams.records == 1);
  // Freed after it.
  world.allocator.free(kept);
  world.take(kB, 4 * kPage);
  CHECK(world.streams.waits == 2);
  CHECK(world.streams.host_waits == 0);
}

TEST_CASE("what is freed while a fence is being recorded is not covered by it") {
  World world;
  char* first = world.take(kA, 8 * kPage);
  char* second = world.take(kA, 8 * kPage);
  world.allocator.free(first);
  world.streams.after_record = [&] {
    CHECK(world.streams.launch(kA, Address::of(second), 8 * kPage).empty());
    world.allocator.free(second);
  };
  CHECK(world.take(kB, 8 * kPage) == first);
  CHECK(world.take(kB, 8 * kPage) == second);
  CHECK(world.streams.records == 2);
}

TEST_CASE("one fence per stream serves a whole batch of frees") {
  World world(64);
  std::vector<char*> blocks;
  for (int i = 0; i < 20; ++i) {
    blocks.push_back(world.take(kA, kPage));
    world.use(kB, blocks.back(), kPage);
    if (i % 2 == 0) world.use(kC, blocks.back(), kPage);
  }
  for (char* block : blocks) world.allocator.free(block);
  CHECK(world.streams.records == 0);
  CHECK(world.statistics().awaiting_bytes == 20 * kPage);
  world.take(kA, 2 * kPage);  // a miss looks for what has passed
  CHECK(world.streams.records == 2);
  world.take(kA, 2 * kPage);
  CHECK(world.streams.records == 2);  // nothing was freed since
}

TEST_CASE("a program that never misses has fences recorded too") {
  World world(128);
  std::vector<char*> blocks;
  for (int i = 0; i < 70; ++i) {
    blocks.push_back(world.take(kA, kPage));
    world.use(kB, blocks.back(), kPage);
  }
  size_t before = world.asked();
  for (int i = 0; i < 31; ++i) world.allocator.free(blocks[i]);
  CHECK(world.asked() == before);
  world.allocator.free(blocks[31]);
  CHECK(world.streams.records == 1);
  world.streams.progress_all();
  CHECK(world.statistics().awaiting_bytes == 32 * kPage);
  for (int i = 32; i < 64; ++i) world.allocator.free(blocks[i]);
  CHECK(world.statistics().awaiting_bytes == 0);
  CHECK(world.streams.records == 2);
}

TEST_CASE("what other streams are done with is free without any wait") {
  World world;
  char* block = world.take(kA, 16 * kPage);
  world.use(kB, block, 16 * kPage);
  world.allocator.free(block);
  world.streams.progress_all();
  CHECK(world.take(kA, 16 * kPage) == block);
  CHECK(world.streams.waits == 0);
  CHECK(world.streams.host_waits == 0);
}

TEST_CASE("a slow stream keeps only what it uses (like #71616)") {
  World world;
  char* slow = world.take(kA, 8 * kPage);
  char* fast = world.take(kA, 8 * kPage);
  world.use(kB, slow, 8 * kPage);
  world.use(kC, fast, 8 * kPage);
  world.allocator.free(slow);  // first in every queue
  world.allocator.free(fast);
  while (world.streams.progress(kA) || world.streams.progress(kC)) {
  }
  CHECK(world.take(kA, 8 * kPage) == fast);
  CHECK(world.streams.waits == 0);
  CHECK(world.statistics().awaiting_bytes == 8 * kPage);
}

TEST_CASE("memory that waits is found by its size, and waited for on the device") {
  World world;
  char* large = world.take(kA, 9 * kPage);
  char* fits = world.take(kA, 4 * kPage);
  char* small = world.take(kA, 3 * kPage);
  for (char* block : {large, fits, small}) world.use(kB, block, kPage);
  for (char* block : {large, fits, small}) world.allocator.free(block);
  CHECK(world.take(kA, 4 * kPage) == fits);
  CHECK(world.streams.waits == 1);  // for B; A is its own
  CHECK(world.streams.host_waits == 0);
  CHECK(world.statistics().awaiting_bytes == 12 * kPage);
  CHECK(world.take(kC, 2 * kPage) == small);
  CHECK(world.streams.waits == 3);  // for A and B
  // What is left of it has been waited for, too.
  CHECK(world.statistics().awaiting_bytes == 9 * kPage);
  CHECK(world.take(kC, kPage) == small + 2 * kPage);
  CHECK(world.streams.waits == 3);
}

TEST_CASE("a pending free in a full budget is no out of memory (like #189504)") {
  for (bool allow_remap : {true, false}) {
    World world(16, allow_remap);
    char* one = world.take(kA, 8 * kPage);
    char* two = world.take(kB, 8 * kPage);
    world.use(kC, one, 8 * kPage);
    world.use(kC, two, 8 * kPage);
    world.allocator.free(one);
    world.allocator.free(two);
    // Neither of them is enough: both, joined, are.
    CHECK(world.take(kA, 16 * kPage) != nullptr);
    CHECK(world.statistics().out_of_memory == 0);
  }
}

TEST_CASE("what waiting for streams has joined is searched again (like #189504)") {
  AllocatorConfig config = World::config(1, false);
  config.allow_windows = false;
  World world(config);
  char* one = world.take(kA, 20 * kKiB);
  char* two = world.take(kB, 20 * kKiB);
  world.take(kA, 20 * kKiB);  // keeps the page
  world.allocator.free(one);
  world.allocator.free(two);
  CHECK(world.take(kC, 40 * kKiB) == one);
  CHECK(world.streams.host_waits == 2);
}

TEST_CASE("a window over several owners waits once for each owner and user") {
  World world(16, false);
  std::vector<char*> blocks;
  for (int i = 0; i < 8; ++i) {
    StreamId stream = i % 2 == 0 ? kA : kB;
    blocks.push_back(world.take(stream, 2 * kPage));
    if (i % 3 == 0) world.use(kC, blocks.back(), 2 * kPage);
    world.adopt(blocks.back(), 2 * kPage, 1);
  }
  char* window = world.take(kB, 12 * kPage);
  CHECK(window == blocks[0]);
  CHECK(world.statistics().windows == 1);
  CHECK(world.statistics().evictions == 6);
  CHECK(world.streams.waits == 2);  // for A and C
  CHECK(world.streams.records == 2);
  CHECK(world.streams.host_waits == 0);
}

TEST_CASE("pages are moved once the host knows that every stream is through with them") {
  World world;
  std::vector<char*> blocks;
  for (int i = 0; i < 8; ++i) {
    blocks.push_back(world.take(i % 2 == 0 ? kA : kB, 2 * kPage));
    if (i == 2) world.use(kC, blocks[2], 2 * kPage);
    FakeOwner* owner = world.adopt(blocks.back(), 2 * kPage, 1);
    owner->barrier = i % 2 == 1;
  }
  world.take(kB, 7 * kPage);
  CHECK(world.statistics().remaps == 1);
  CHECK(world.streams.host_waits == 2);  // A, and C, which used one of them
  CHECK(world.streams.waits == 0);
}

TEST_CASE("giving back pages waits for the streams that used them (like #196258)") {
  World world;
  char* block = world.take(kB, 4 * kPage);
  world.use(kC, block, 4 * kPage);
  world.allocator.free(block);
  CHECK(world.allocator.give_back_free_pages() == 4 * kPage);  // PageInUse otherwise
  CHECK(world.streams.host_waits == 2);
  CHECK(world.statistics().awaiting_bytes == 0);
}

TEST_CASE("a wait that is refused once does not keep what has passed since") {
  World world;
  char* block = world.take(kA, 4 * kPage);
  world.use(kB, block, 4 * kPage);
  world.allocator.free(block);
  world.allocator.free(world.take(kB, 4 * kPage));
  world.streams.fail_at(GENERATE(1, 2));  // recording B's fence, or waiting for it
  world.allocator.give_back_free_pages();
  REQUIRE(world.streams.failed());
  world.allocator.give_back_free_pages();
  CHECK(world.statistics().awaiting_bytes == 0);
  CHECK(world.statistics().reserved_bytes == 0);
}

TEST_CASE("during a capture the device is not asked; what waited then comes back (like #175015)") {
  World world;
  char* shared = world.take(kA, 8 * kPage);
  char* plain = world.take(kA, 8 * kPage);
  world.use(kB, shared, 8 * kPage);
  world.allocator.suspend_stream_order();
  world.allocator.suspend_stream_order();
  world.allocator.free(shared);
  world.allocator.free(plain);
  CHECK_THROWS_AS(world.take(kB, 8 * kPage), OutOfMemory);
  CHECK_THROWS_AS(world.take(kA, 16 * kPage), OutOfMemory);
  CHECK(world.take(kA, 8 * kPage) == plain);  // the stream's own
  CHECK(world.allocator.give_back_free_pages() == 0);
  world.allocator.resume_stream_order();
  CHECK_THROWS_AS(world.take(kB, 8 * kPage), OutOfMemory);
  CHECK(world.asked() == 0);
  world.allocator.resume_stream_order();
  CHECK(world.take(kB, 8 * kPage) == shared);
  CHECK(world.streams.waits == 1);  // for A; B is its own
  CHECK(test::dies([&] { world.allocator.resume_stream_order(); }));
}

TEST_CASE("a capture begins only once no other thread is asking the device") {
  World world;
  char* block = world.take(kA, 8 * kPage);
  world.use(kB, block, 8 * kPage);
  world.allocator.free(block);
  std::thread capturing;
  std::atomic<bool> suspended = false;
  size_t queries = 0;
  // While this thread polls.
  world.streams.after_record = [&] {
    capturing = std::thread([&] {
      world.allocator.suspend_stream_order();
      queries = world.streams.queries;
      suspended = true;
    });
    for (int i = 0; i < 20 && !suspended; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  CHECK_THROWS_AS(world.take(kA, 16 * kPage), OutOfMemory);
  REQUIRE(capturing.joinable());
  capturing.join();
  CHECK(world.streams.queries == queries);
  world.allocator.resume_stream_order();
}

TEST_CASE("during a capture nothing is evicted that another stream may use") {
  World world;
  char* other = world.take(kB, 8 * kPage);
  char* shared = world.take(kA, 4 * kPage);
  char* own = world.take(kA, 4 * kPage);
  world.use(kC, shared, 4 * kPage);
  for (char* block : {other, shared, own}) world.adopt(block, kPage, block == own ? 100 : 1);
  world.allocator.suspend_stream_order();
  CHECK(world.take(kA, 4 * kPage) == own);
  CHECK(world.asked() == 0);
  world.allocator.resume_stream_order();
}

TEST_CASE("a device that cannot order streams is a device error, and the memory stays") {
  World world;
  char* block = world.take(kA, 16 * kPage);
  world.use(kC, block, 16 * kPage);
  world.allocator.free(block);
  world.streams.fail_at(1, 1000);
  std::string message;
  try {
    world.take(kB, 16 * kPage);
  } catch (const DeviceError& error) {
    message = error.what();
  }
  CHECK(message.find("simulated failure") == 0);
  world.allocator.check_invariants();
  world.streams.fail_at(1, 2);  // a failure that goes away is not seen
  CHECK(world.take(kB, 16 * kPage) == block);
}

TEST_CASE("a stream that is gone takes no memory with it") {
  World world;
  char* own = world.take(kB, 8 * kPage);
  char* used = world.take(kA, 8 * kPage);
  world.use(kB, used, 8 * kPage);
  world.allocator.free(own);
  world.allocator.free(used);
  world.streams.destroy(kB);
  CHECK(world.take(kC, 16 * kPage) == std::min(own, used));
  CHECK(world.streams.finishes == 1);
  CHECK(world.statistics().awaiting_bytes == 0);
}

TEST_CASE("what waited is free once all work was waited for in place of a refused fence") {
  World world;
  char* shared = world.take(kA, kPage);
  world.use(kB, shared, kPage);
  world.allocator.free(shared);
  world.streams.fail_at(1);
  char* other = world.take(kC, kPage);
  CHECK(world.streams.failed());
  CHECK(world.streams.finishes == 1);
  world.allocator.free(other);
  CHECK(world.allocator.give_back_free_pages() > 0);
  CHECK(world.statistics().awaiting_bytes == 0);
  CHECK(world.statistics().reserved_bytes == 0);
}

TEST_CASE("at its end an arena waits for all streams before it unmaps") {
  World world;
  char* block = world.take(kB, 4 * kPage);
  world.use(kC, block, 4 * kPage);  // and is never freed: PageInUse at the end otherwise
}

TEST_CASE("misuse is named with the address") {
  World world;
  char* block = world.take(kB, 4 * kPage);
  char* freed = world.take(kB, 512);
  world.allocator.free(freed);
  char elsewhere = 0;
  auto message_of = [&](const std::function<void()>& code) {
    std::string message;
    CHECK(test::dies(code, &message));
    return message;
  };
  auto names = [&](const std::string& message, const void* address) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%zx", reinterpret_cast<uintptr_t>(address));
    return message.find(text) != std::string::npos;
  };
  auto check = [&](const std::string& message, const void* address, const char* what) {
    INFO(message);
    CHECK(names(message, address));
    CHECK(message.find(what) != std::string::npos);
  };
  check(message_of([&] { world.allocator.free(freed); }), freed, "freed twice?");
  check(message_of([&] { world.allocator.free(block + 512); }), block + 512, "inside one of");
  check(message_of([&] { world.allocator.free(block + 1); }), block + 1, "inside one of");
  check(message_of([&] { world.allocator.free(&elsewhere); }), &elsewhere, "not of this");
  check(message_of([&] { world.allocator.free(nullptr); }), nullptr, "not of this");
  check(message_of([&] { world.allocator.record_stream(freed, kA); }), freed, "freed twice?");
  check(message_of([&] { world.allocator.free_checked(block, kPage, kB); }), block,
        "65536 bytes of stream 1, but is 262144 bytes of stream 1");
  check(message_of([&] { world.allocator.free_checked(block, 4 * kPage, kA); }), block,
        "262144 bytes of stream 0, but is 262144 bytes of stream 1");
  CHECK(message_of([&] { world.take(kA, 0); }).find("allocation of 0 bytes") != std::string::npos);
  CHECK_THROWS_AS(world.take(StreamId{1}, SIZE_MAX), OutOfMemory);
  CHECK_THROWS_AS(world.take(kB, SIZE_MAX - 511), OutOfMemory);  // like #57571
  CHECK(message_of([&] { world.take(StreamId{70000}, 512); }).find("stream 70000") !=
        std::string::npos);
  CHECK(world.allocator.misuse(block).empty());
  CHECK(names(world.allocator.misuse(block + 8), block + 8));
  world.allocator.free_checked(block, 4 * kPage, kB);
  check(world.allocator.misuse(block), block, "freed twice?");
}

TEST_CASE("without an order there is one stream") {
  SimulatedSpace space(kPage);
  DeviceMutex mutex;
  BudgetedAllocator allocator(space, mutex, World::config(16, true));
  std::string message;
  CHECK(test::dies([&] { allocator.allocate(64, PlacementHint::kTransient, kB); }, &message));
  CHECK(message.find("stream 1: there is one stream") != std::string::npos);
}

}  // namespace
}  // namespace tidepool
