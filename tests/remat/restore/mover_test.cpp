#include "remat/restore/mover.h"

#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tests/support/catch.h"
#include "tests/support/remat_fixture.h"

namespace tidepool {
namespace {

using remat::Storage;
using Tensor = RematFixture::Tensor;

struct World : RematFixture {
  // As the allocator does it: a block is reserved, the contents move there, the old one is freed.
  bool move(Tensor tensor) {
    Storage* storage = tracked(tensor);
    const size_t bytes = tensor->bytes();
    void* to = allocator.allocate(bytes);
    DeviceLock lock(mutex);
    void* const from = storage->address;
    const bool moved = !runtime.move_price(storage).barrier && runtime.move(lock, storage, to);
    allocator.free_locked(moved ? from : to);
    return moved;
  }
};

TEST_CASE("a root's contents move to another block, and what depends on it is as it was") {
  World world;
  Tensor x = world.input();
  Tensor y = world.pure({x});
  void* const before = x->address;
  CHECK(world.evict(y));
  CHECK(world.move(x));
  CHECK(x->address != before);
  CHECK(world.is_root(x));
  CHECK(world.tracked(x)->address == x->address);
  world.check();
  CHECK(world.matches(x));
  CHECK(world.matches(y));  // made again from the moved bytes
}

TEST_CASE("what has lineage keeps it when it moves") {
  World world;
  Tensor x = world.input();
  Tensor y = world.pure({x});
  CHECK(world.move(y));
  CHECK_FALSE(world.is_root(y));
  CHECK(world.evict(y));
  CHECK(world.matches(y));
  CHECK(world.statistics().rematerializations == 1);  // a move is none
  world.check();
}

TEST_CASE("what is used, fixed, escaped or evicted does not move") {
  World world;
  Tensor x = world.input();
  Storage* storage = world.tracked(x);
  storage->locks = 1;
  CHECK_FALSE(world.move(x));
  storage->locks = 0;
  storage->fixed = true;
  CHECK_FALSE(world.move(x));
  storage->fixed = false;
  storage->current->uses = 1;
  CHECK_FALSE(world.move(x));
  storage->current->uses = 0;
  CHECK(world.move(x));
  for (const remat::Role role :
       {remat::Role::kParameter, remat::Role::kOptimizerState, remat::Role::kInput}) {
    storage->role = role;
    CHECK_FALSE(world.move(x));
  }
  storage->role = remat::Role::kOther;
  storage->escaped = true;
  CHECK_FALSE(world.move(x));
  storage->escaped = false;
  Tensor y = world.pure({x});
  CHECK(world.evict(y));
  Storage* evicted = world.tracked(y);
  DeviceLock lock(world.mutex);
  CHECK(world.runtime.move_price(evicted).barrier);
}

TEST_CASE("policies of the papers move nothing") {
  for (const char* policy : {"dtr", "coop", "lru"}) {
    remat::RuntimeConfig config;
    config.policy = policy;
    RematFixture world(1 << 20, config);
    Storage* storage = world.tracked(world.input());
    DeviceLock lock(world.mutex);
    CHECK(world.runtime.move_price(storage).barrier);
  }
}

TEST_CASE("a storage that dies while it is copied leaves nothing behind but what others need") {
  for (const bool needed : {false, true}) {
    World world;
    Tensor x = world.input();
    Tensor y = world.pure({x});
    if (needed) CHECK(world.evict(y));
    bool dropped = false;
    world.framework.on_use = [&](StreamId, const void*, size_t) {
      if (std::exchange(dropped, true)) return;
      world.drop(x);
    };
    CHECK_FALSE(world.move(x));
    CHECK(dropped);
    world.framework.on_use = nullptr;
    world.check();
    CHECK(world.matches(y));
    if (needed) CHECK(world.statistics().rematerializations == 1);
    world.drop(y);
    {
      DeviceLock lock(world.mutex);
      world.runtime.give_up_or_wait(lock);  // sweeps what was retained
    }
    CHECK(world.allocator.statistics().allocated_bytes == 0);
    world.check();
  }
}

TEST_CASE("the bytes of a root that dies while it is copied stay until the copy is done") {
  World world;
  Tensor x = world.input();
  Tensor y = world.pure({x});
  const size_t bytes = x->bytes() + y->bytes();
  size_t allocated_bytes = 0;  // while it is copied
  world.framework.on_use = [&](StreamId, const void*, size_t) {
    if (allocated_bytes > 0) return;
    world.drop(x);
    world.runtime.end_step();  // sweeps the roots that nothing needs
    allocated_bytes = world.allocator.statistics().allocated_bytes - y->bytes();
  };
  CHECK_FALSE(world.move(x));
  world.framework.on_use = nullptr;
  CHECK(allocated_bytes == 2 * (bytes - y->bytes()));  // where it comes from, and where it goes
  world.check();
  CHECK(world.matches(y));
  world.pure({y});  // sweeps, as something has changed
  CHECK(world.allocator.statistics().allocated_bytes == 2 * y->bytes());
}

TEST_CASE("a storage that is being moved does not count as evicted") {
  World world;
  Tensor x = world.input();
  bool evicted = true;
  world.framework.on_use = [&](StreamId, const void*, size_t) {
    DeviceLock lock(world.mutex);
    evicted = world.runtime.has_evicted();
  };
  CHECK(world.move(x));
  world.framework.on_use = nullptr;
  CHECK_FALSE(evicted);
  CHECK(world.evict(world.pure({x})));
  DeviceLock lock(world.mutex);
  CHECK(world.runtime.has_evicted());
}

TEST_CASE("a value with lineage that dies while it is copied is freed") {
  World world;
  Tensor x = world.input();
  Tensor y = world.pure({x});
  Tensor z = world.pure({y});
  bool dropped = false;
  world.framework.on_use = [&](StreamId, const void*, size_t) {
    if (!std::exchange(dropped, true)) world.drop(y);
  };
  CHECK_FALSE(world.move(y));
  world.framework.on_use = nullptr;
  world.check();
  CHECK(world.allocator.statistics().allocated_bytes == x->bytes() + z->bytes());
  CHECK(world.evict(z));
  CHECK(world.matches(z));
}

TEST_CASE("another thread that wants the storage meanwhile waits for its new bytes") {
  World world;
  Tensor x = world.input();
  std::thread reader;
  bool matched = false;
  world.framework.on_use = [&](StreamId, const void*, size_t) {
    if (reader.joinable()) return;
    reader = std::thread([&] { matched = world.matches(x); });
    // It finds the storage without bytes: let it come to where it waits.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  CHECK(world.move(x));
  reader.join();
  world.framework.on_use = nullptr;
  CHECK(matched);
  world.check();
}

TEST_CASE("a copy that fails leaves the storage its old bytes") {
  World world;
  Tensor x = world.input();
  void* const before = x->address;
  world.framework.on_use = [](StreamId, const void*, size_t) {
    throw std::runtime_error("the device refuses");
  };
  CHECK_FALSE(world.move(x));
  world.framework.on_use = nullptr;
  CHECK(x->address == before);
  world.check();
  CHECK(world.matches(x));
}

}  // namespace
}  // namespace tidepool
