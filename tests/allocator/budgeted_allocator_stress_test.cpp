// Threads at once on one allocator; run under the thread sanitizer too.
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "allocator/budgeted_allocator.h"
#include "allocator/space/private_host_space.h"
#include "tests/support/catch.h"
#include "tests/support/counting_space.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

constexpr size_t kPage = 64 << 10;

// Owners are blocks' own first words; every one may be evicted unless a thread is using it.
struct Slot {
  char* address = nullptr;  // guarded by the device lock
  size_t bytes = 0;
  bool in_use = false;
};

class SlotReclaimer final : public Reclaimer {
 public:
  void begin_search() override {}
  Price price(Owner owner, size_t) override {
    auto* slot = static_cast<Slot*>(owner);
    return slot->in_use ? Price::blocked() : Price{slot->bytes % 97, false};
  }
  double price_per_byte(Owner owner, size_t) override {
    const auto* slot = static_cast<Slot*>(owner);
    return slot->in_use ? kNever : 1;
  }
  bool evict(Owner owner) override {
    static_cast<Slot*>(owner)->address = nullptr;
    return true;
  }
  bool give_up_or_wait(DeviceLock& lock) override {
    if (++waits_ % 50 == 0) return false;
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
    return true;
  }
  void tell_uses(std::span<HeldBlock>) override {}

 private:
  size_t waits_ = 0;
};

TEST_CASE("threads allocate, evict each other's blocks and free", "[stress]") {
  constexpr int kThreads = 4, kRounds = 3000;
  AllocatorConfig config;
  config.budget_bytes = 48 * kPage;
  config.page_bytes = kPage;
  PrivateHostSpace memory(kPage);
  test::CountingSpace space(memory, config.budget_bytes);
  DeviceMutex mutex;
  SlotReclaimer reclaimer;
  BudgetedAllocator allocator(space, mutex, config);
  allocator.set_reclaimer(&reclaimer);
  std::vector<std::vector<Slot>> slots(kThreads, std::vector<Slot>(24));
  std::vector<size_t> served(kThreads), broken(kThreads);

  auto work = [&](size_t thread) {
    test::Random random(thread + 1);
    for (int round = 0; round < kRounds; ++round) {
      Slot& slot = slots[thread][random.below(24)];
      char* old = nullptr;
      {
        DeviceLock lock(mutex);
        old = slot.address;
        slot.address = nullptr;
        if (old != nullptr) allocator.free_locked(old);
      }
      size_t bytes = random.chance(50) ? random.between(1, 3000) : random.between(1, 5 * kPage);
      char* address = nullptr;
      try {
        address = static_cast<char*>(allocator.allocate(bytes));
      } catch (const OutOfMemory&) {
        continue;
      }
      ++served[thread];
      std::memset(address, static_cast<int>(thread + 1), bytes);  // nobody owns it: it stays
      bool intact = true;
      for (size_t i = 0; i < bytes; i += 509) {
        intact &= address[i] == static_cast<char>(thread + 1);
      }
      broken[thread] += !intact;
      DeviceLock lock(mutex);
      slot.address = address;
      slot.bytes = bytes;
      allocator.set_owner(address, &slot);
    }
  };
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();
  allocator.check_invariants();
  for (size_t thread = 0; thread < kThreads; ++thread) {
    CHECK(served[thread] > kRounds / 2);
    CHECK(broken[thread] == 0);
  }
  CHECK(allocator.statistics().evictions > 100);
  CHECK(space.held_peak_bytes() <= config.budget_bytes);
}

}  // namespace
}  // namespace tidepool
