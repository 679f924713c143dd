// What of the arena cannot be seen through BudgetedAllocator: where blocks are put, and which are
// evicted for it.
#include "allocator/arena.h"

#include <map>

#include "allocator/faulty_space.h"
#include "allocator/simulated_space.h"
#include "tests/support/catch.h"
#include "tests/support/fake_reclaimer.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

constexpr size_t kPage = 64 << 10;

struct World {
  World() : arena(space, config()) {}
  static AllocatorConfig config() {
    AllocatorConfig config;
    config.budget_bytes = 64 * kPage;
    config.handle_bytes = kPage;
    return config;
  }
  char* allocate(size_t bytes, PlacementHint hint = PlacementHint::kTransient) {
    DeviceLock lock(mutex);
    return static_cast<char*>(arena.allocate(lock, bytes, hint));
  }
  static uintptr_t page_of(const char* address) {
    return reinterpret_cast<uintptr_t>(address) / kPage;
  }

  SimulatedSpace space{kPage};
  DeviceMutex mutex;
  Arena arena;
};

TEST_CASE("tiny, long-lived, medium and large blocks share no page, in this order of addresses") {
  World world;
  char* large = world.allocate(3 * kPage);
  char* medium = world.allocate(kPage / 2);
  char* kept = world.allocate(3 * kPage, PlacementHint::kLongLived);
  char* tiny = world.allocate(64);
  CHECK(world.page_of(tiny) < world.page_of(kept));
  CHECK(world.page_of(kept + 3 * kPage - 1) < world.page_of(medium));
  CHECK(world.page_of(medium) < world.page_of(large));
  // A tiny block is few bytes and often for ever: the hint makes no difference.
  CHECK(world.page_of(world.allocate(64, PlacementHint::kLongLived)) == world.page_of(tiny));
}

TEST_CASE("neighbours of one kind are tight, over the ends of pages") {
  World world;
  char* a = world.allocate(kPage + 64);
  char* b = world.allocate(2 * kPage + 128);
  char* c = world.allocate(kPage);
  CHECK(b == a + kPage + 64);
  CHECK(c == b + 2 * kPage + 128);
  CHECK(world.arena.committed_bytes() == 5 * kPage);
}

TEST_CASE("what is cheap comes from the high end of a free block, and of a window") {
  World world;
  char* whole = world.allocate(10 * kPage);
  world.allocate(kPage);
  world.arena.free(whole);
  world.arena.check_invariants();
  char* dear = world.allocate(2 * kPage);
  char* cheap = world.allocate(3 * kPage, PlacementHint::kCheap);
  CHECK(dear == whole);
  CHECK(cheap == whole + 7 * kPage);
  CHECK(world.allocate(2 * kPage) == whole + 2 * kPage);
  CHECK(world.allocate(kPage, PlacementHint::kCheap) == whole + 6 * kPage);
  world.arena.check_invariants();
}

TEST_CASE("a cheap block lies at the high end of the window that goes for it") {
  AllocatorConfig config = World::config();
  config.allow_remap = false;
  for (const PlacementHint hint : {PlacementHint::kTransient, PlacementHint::kCheap}) {
    SimulatedSpace space(kPage);
    test::FakeReclaimer reclaimer;
    Arena arena(space, config);
    arena.set_reclaimer(&reclaimer);
    DeviceMutex mutex;
    DeviceLock lock(mutex);
    auto* low = static_cast<char*>(arena.allocate(lock, 32 * kPage, PlacementHint::kTransient));
    arena.allocated_block(low).owner = reclaimer.add(low, 32 * kPage, 1);
    arena.allocate(lock, 32 * kPage, PlacementHint::kTransient);
    auto* served = static_cast<char*>(arena.allocate(lock, 5 * kPage, hint));
    CHECK(served == (hint == PlacementHint::kCheap ? low + 27 * kPage : low));
    arena.check_invariants();
  }
}

TEST_CASE("pages of one kind serve another when the budget is spent") {
  World world;
  char* large = world.allocate(64 * kPage);
  world.arena.free(large);
  world.allocate(64);
  CHECK(world.arena.statistics().remapped_bytes == kPage);
  CHECK(world.arena.committed_bytes() == 64 * kPage);
  world.arena.check_invariants();
}

TEST_CASE("the automatic handle gives a budget about a thousand pages") {
  auto pages_of = [](size_t budget_bytes) {
    SimulatedSpace space(kPage);
    AllocatorConfig config;
    config.budget_bytes = budget_bytes;
    Arena arena(space, config);
    DeviceMutex mutex;
    DeviceLock lock(mutex);
    arena.allocate(lock, 64, PlacementHint::kTransient);
    return budget_bytes / arena.committed_bytes();
  };
  CHECK(pages_of(size_t{8} << 20) == 128);
  CHECK(pages_of(size_t{1} << 30) == 1024);
  CHECK(pages_of(size_t{64} << 30) == 32768);
}

// An arena with a reclaimer and one zone, whose lock is held.
struct PricedWorld {
  explicit PricedWorld(AddressSpace& space, uint64_t remap_ns = 0,
                       Preference preferred = Preference::kCheapest, bool shortlists = false)
      : arena(space, config(remap_ns)) {
    reclaimer.preferred = preferred;
    reclaimer.shortlists = shortlists;
    arena.set_reclaimer(&reclaimer);
  }
  static AllocatorConfig config(uint64_t remap_ns) {
    AllocatorConfig config = World::config();
    config.one_zone = true;
    config.remap_ns_per_handle = remap_ns;
    return config;
  }
  void add(size_t bytes, uint64_t price) {
    void* block = arena.allocate(lock, bytes, PlacementHint::kTransient);
    arena.allocated_block(block).owner = reclaimer.add(block, bytes, price);
  }
  // Two neighbours for 30 each, and two that lie apart for 20 each: pages save 20 in all.
  void add_eight() {
    for (const uint64_t price : {20, 1000, 30, 30, 1000, 20, 1000, 1000}) add(8 * kPage, price);
  }

  test::FakeReclaimer reclaimer;
  Arena arena;
  DeviceMutex mutex;
  DeviceLock lock{mutex};
};

TEST_CASE("a dearer window is taken where moving pages costs more than it saves") {
  for (const uint64_t page_ns : {0, 1, 2}) {
    SimulatedSpace space(kPage);
    PricedWorld world(space, page_ns);
    world.add_eight();
    world.arena.allocate(world.lock, 16 * kPage, PlacementHint::kTransient);
    const bool window = page_ns * 16 > 20;
    CHECK(world.arena.statistics().windows == (window ? 1 : 0));
    CHECK(world.arena.statistics().remaps == (window ? 0 : 1));
    CHECK(world.reclaimer.evicted[0]->price == (window ? 30 : 20));
    world.arena.check_invariants();
  }
}

TEST_CASE("where pages are preferred no window is evicted, and what is left over serves the next") {
  for (const bool shortlists : {false, true}) {
    for (const bool pages : {false, true}) {
      SimulatedSpace space(kPage);
      const Preference preferred = pages ? Preference::kPages : Preference::kCheapest;
      PricedWorld world(space, 0, preferred, shortlists);
      // By byte the first is the cheapest, but as a whole each of those of one page is.
      world.add(32 * kPage, 64);
      for (int k = 0; k < 32; ++k) world.add(kPage, 10);
      for (int k = 0; k < 4; ++k) {
        world.arena.allocate(world.lock, kPage, PlacementHint::kTransient);
        world.arena.check_invariants();
      }
      CHECK(world.reclaimer.evicted.size() == (pages ? 1 : 4));
      CHECK(world.arena.statistics().windows == (pages ? 0 : 4));
    }
  }
}

TEST_CASE("a window serves where the device refuses to move pages") {
  for (const bool shortlists : {false, true}) {
    SimulatedSpace simulated(kPage);
    FaultySpace space(simulated);
    PricedWorld world(space, 0, Preference::kPages, shortlists);
    world.add_eight();
    space.fail_at(DeviceCall::kAny, 1, true);
    world.arena.allocate(world.lock, 16 * kPage, PlacementHint::kTransient);
    CHECK(space.failed());
    CHECK(world.arena.statistics().windows == 1);
    world.arena.check_invariants();
  }
}

TEST_CASE("once something was evicted, a large block touches no page that it need not") {
  SimulatedSpace space(kPage);
  PricedWorld world(space);
  const auto allocate = [&](size_t bytes) {
    return world.arena.allocate(world.lock, bytes, PlacementHint::kTransient);
  };
  const auto at = [&](size_t bytes) { return world.arena.offset(allocate(bytes)); };
  world.add(63 * kPage, 1), world.add(kPage, 1000);
  world.arena.free(allocate(63 * kPage));
  CHECK(at(kPage / 2) == 0);
  CHECK(at(3 * kPage) == kPage);
  CHECK(at(3 * kPage / 2) == 4 * kPage);
  CHECK(at(3 * kPage / 2) == 11 * kPage / 2);  // in two pages as well
  CHECK(at(kPage / 4) == kPage / 2);           // in the gap
  world.arena.check_invariants();
  // In new pages: what the last one has to spare lies before the block, not after it.
  world.arena.give_back(world.lock);
  CHECK(at(3 * kPage / 4) == 7 * kPage);
  CHECK(at(2 * kPage) == 8 * kPage);
  world.arena.check_invariants();
}

TEST_CASE("a block lies at a page's start in the window that goes for it") {
  SimulatedSpace space(kPage);
  PricedWorld world(space);
  world.add(kPage / 2, 1000);
  std::vector<void*> halves(5);
  for (void*& half : halves) {
    half = world.arena.allocate(world.lock, kPage / 2, PlacementHint::kTransient);
  }
  for (const size_t k : {0, 1}) world.arena.free(halves[k]);
  world.add(kPage, 10);  // over a page's end
  for (const size_t k : {2, 3, 4}) world.arena.free(halves[k]);
  world.add(3 * kPage / 2, 10);
  for (int k = 0; k < 61; ++k) world.add(kPage, 1000);
  void* const served = world.arena.allocate(world.lock, 2 * kPage, PlacementHint::kTransient);
  CHECK(world.arena.offset(served) == kPage);
  CHECK(world.reclaimer.evicted.size() == 2);
  CHECK(world.arena.statistics().windows == 1);
  world.arena.check_invariants();
}

// An arena of windows only, all of whose blocks are large, transient and owned.
class WindowWorld {
 public:
  explicit WindowWorld(uint64_t seed) : random_(seed), arena_(space_, config()) {
    arena_.set_reclaimer(&reclaimer_);
    reclaimer_.on_evict = [this](test::FakeOwner* owner) { owners_.erase(owner->address); };
  }

  // One request. If it evicts, the blocks are those of the cheapest window. True if it did.
  bool request() {
    const size_t bytes = 64 * random_.between(kPage / 64, 8 * kPage / 64);
    const std::vector<Owner> expected = cheapest_window(bytes);
    DeviceLock lock(mutex_);
    reclaimer_.evicted.clear();
    const uint64_t before = arena_.statistics().windows;
    try {
      void* address = arena_.allocate(lock, bytes, PlacementHint::kTransient);
      test::FakeOwner* owner = reclaimer_.add(address, bytes, random_price(), random_.chance(10));
      arena_.allocated_block(address).owner = owner;
      owners_[address] = owner;
    } catch (const OutOfMemory&) {
      CHECK(expected.empty());
      return false;
    }
    if (arena_.statistics().windows == before) return false;
    const std::vector<Owner> evicted(reclaimer_.evicted.begin(), reclaimer_.evicted.end());
    if (evicted != expected) {
      FAIL(evicted.size() << " blocks for " << bytes << " bytes, not these " << expected.size());
    }
    return !evicted.empty();
  }

  // Something happens to a block: it goes, becomes a barrier or no longer is, or changes its price.
  void change() {
    if (owners_.empty()) return;
    auto found = std::next(owners_.begin(), static_cast<ptrdiff_t>(random_.below(owners_.size())));
    test::FakeOwner& owner = *found->second;
    switch (random_.below(4)) {
      case 0: {
        DeviceLock lock(mutex_);
        arena_.free(owner.address);
        owner.address = nullptr;
        owners_.erase(found);
        break;
      }
      case 1:
        owner.barrier = !owner.barrier && random_.chance(30);
        break;
      default:
        owner.price = random_price();
    }
  }

  void check_invariants() const {
    DeviceLock lock(mutex_);
    arena_.check_invariants();
  }

 private:
  struct Piece {
    size_t bytes;
    test::FakeOwner* owner;  // null: free
    bool barrier;
  };

  static AllocatorConfig config() {
    AllocatorConfig config = World::config();
    config.allow_remap = false;
    return config;
  }

  uint64_t random_price() { return random_.chance(20) ? 5 : random_.below(1000); }

  // The blocks as seen from outside, free neighbours as one.
  std::vector<Piece> pieces() const {
    DeviceLock lock(mutex_);
    std::vector<Piece> pieces;
    for (const BlockView& view : arena_.block_views()) {
      const bool free = view.use == BlockUse::kFree;
      auto owner = owners_.find(view.address);
      if (free && !pieces.empty() && !pieces.back().barrier && pieces.back().owner == nullptr) {
        pieces.back().bytes += view.bytes;
      } else if (owner != owners_.end()) {
        pieces.push_back({view.bytes, owner->second, owner->second->barrier});
      } else {
        pieces.push_back({view.bytes, nullptr, !free});
      }
    }
    return pieces;
  }

  // By brute force: the owners in it, in address order.
  std::vector<Owner> cheapest_window(size_t bytes) const {
    const std::vector<Piece> all = pieces();
    using Rank = std::array<size_t, 5>;  // price, evicted bytes and blocks, bytes, address
    Rank best;
    best.fill(SIZE_MAX);
    std::vector<Owner> owners;
    for (size_t first = 0; first < all.size(); ++first) {
      Rank rank{0, 0, 0, 0, first};
      std::vector<Owner> inside;
      for (size_t last = first; last < all.size() && !all[last].barrier; ++last) {
        rank[3] += all[last].bytes;
        if (all[last].owner != nullptr) {
          rank[0] += all[last].owner->price;
          rank[1] += all[last].bytes;
          ++rank[2];
          inside.push_back(all[last].owner);
        }
        if (rank[3] < bytes || rank >= best) continue;
        best = rank;
        owners = inside;
      }
    }
    return owners;
  }

  test::Random random_;
  SimulatedSpace space_{kPage};
  mutable DeviceMutex mutex_;
  test::FakeReclaimer reclaimer_;
  Arena arena_;
  std::map<const void*, test::FakeOwner*> owners_;  // of live blocks, by address
};

TEST_CASE("what a request evicts is the cheapest window, while blocks and prices change") {
  size_t windows = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    WindowWorld world(seed);
    for (int i = 0; i < 500; ++i) {
      windows += world.request();
      for (int k = 0; k < 3; ++k) world.change();
    }
    world.check_invariants();
  }
  INFO(windows << " windows");
  CHECK(windows > 9000);
}

}  // namespace
}  // namespace tidepool
