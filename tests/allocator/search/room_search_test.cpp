// What is found as the cheapest way to make room.
#include "allocator/search/room_search.h"

#include <array>
#include <map>
#include <vector>

#include "allocator/arena/page_supply.h"
#include "tests/support/allocator_world.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

using test::config_of;
using test::FakeOwner;
using test::kPage;

// Sixty-four pages in one zone.
struct World : test::AllocatorWorld {
  explicit World(uint64_t remap_ns = 0) : AllocatorWorld(config(remap_ns)) {}
  static AllocatorConfig config(uint64_t remap_ns) {
    AllocatorConfig config = config_of(64);
    config.placement = kOneZone;
    config.remap_ns_per_page = remap_ns;
    return config;
  }
  // Two neighbours for 30 each, and two that lie apart for 20 each: pages save 20 in all.
  void add_eight() {
    for (const uint64_t price : {20, 1000, 30, 30, 1000, 20, 1000, 1000}) owned(8 * kPage, price);
  }
};

TEST_CASE("a search changes nothing but its own memory") {
  SimulatedSpace space(kPage);
  Arena arena(space, World::config(0));
  DeviceMutex mutex;
  test::FakeReclaimer reclaimer;
  arena.set_reclaimer(&reclaimer);
  PageSupply supply(arena);
  RoomSearch search(arena);
  DeviceLock lock(mutex);
  const auto request = [](size_t bytes) {
    return Request{.asked_bytes = bytes, .bytes = bytes, .zone = Zone::kTransient};
  };
  for (const uint64_t price : {5, 1, 2, 9}) {
    const RoomPlan plan = search.new_pages(request(16 * kPage));
    BlockId served{};
    REQUIRE(supply.serve(lock, request(16 * kPage), std::get<PagesPlan>(plan), served) ==
            Outcome::kServed);
    arena.heap.set_requested(served, 16 * kPage);
    arena.heap[served].owner = reclaimer.add(arena.address_of(served).pointer(), 16 * kPage, price);
  }
  CHECK(std::holds_alternative<std::monostate>(search.new_pages(request(kPage))));
  for (int k = 0; k < 2; ++k) {
    search.begin();
    const RoomPlan plan = search.evictions(request(20 * kPage), false);
    const auto& window = std::get<WindowPlan>(plan);
    CHECK(window.range.begin == 16 * kPage);
    CHECK(window.range.end == 48 * kPage);
    CHECK(window.victims.size() == 2);
    CHECK(arena.heap.allocated_bytes() == 64 * kPage);
    CHECK(reclaimer.evicted.empty());
    arena.check_invariants();
    search.check_invariants();
  }
}

TEST_CASE("a dearer window is taken where moving pages costs more than it saves") {
  for (const uint64_t page_ns : {0, 1, 2}) {
    World world(page_ns);
    world.add_eight();
    world.allocate(16 * kPage);
    const bool window = page_ns * 16 > 20;
    CHECK(world.allocator.statistics().windows == (window ? 1 : 0));
    CHECK(world.allocator.statistics().remaps == (window ? 0 : 1));
    CHECK(world.reclaimer.evicted[0]->price == (window ? 30 : 20));
    world.allocator.check_invariants();
  }
}

TEST_CASE("a dearer window is taken where the wait before pages move costs more than they save") {
  for (const uint64_t drain_ns : {19, 21}) {
    AllocatorConfig config = World::config(0);
    config.drain_ns = drain_ns;
    test::AllocatorWorld world(config);
    for (const uint64_t price : {20, 1000, 30, 30, 1000, 20, 1000, 1000}) {
      world.owned(8 * kPage, price);
    }
    world.allocate(16 * kPage);
    const bool window = drain_ns > 20;
    CHECK(world.allocator.statistics().windows == (window ? 1 : 0));
    CHECK(world.allocator.statistics().remaps == (window ? 0 : 1));
    world.allocator.check_invariants();
  }
}

TEST_CASE("where pages are preferred no window is evicted, and what is left over serves the next") {
  for (const bool shortlists : {false, true}) {
    for (const bool pages : {false, true}) {
      World world;
      world.reclaimer.preferred = pages ? Preference::kPages : Preference::kCheapest;
      world.reclaimer.shortlists = shortlists;
      // By byte the first is the cheapest, but as a whole each of those of one page is.
      world.owned(32 * kPage, 64);
      for (int k = 0; k < 32; ++k) world.owned(kPage, 10);
      for (int k = 0; k < 4; ++k) {
        world.allocate(kPage);
        world.allocator.check_invariants();
      }
      CHECK(world.reclaimer.evicted.size() == (pages ? 1 : 4));
      CHECK(world.statistics().windows == (pages ? 0 : 4));
    }
  }
}

TEST_CASE("a window serves where the device refuses to move pages") {
  for (const bool shortlists : {false, true}) {
    World world;
    world.reclaimer.preferred = Preference::kPages;
    world.reclaimer.shortlists = shortlists;
    world.add_eight();
    world.space.fail_at(DeviceCall::kAny, 1, true);
    world.allocate(16 * kPage);
    CHECK(world.space.failed());
    CHECK(world.statistics().windows == 1);
    world.allocator.check_invariants();
  }
}

// An allocator of windows only, all of whose blocks are large, transient and owned.
class WindowWorld {
 public:
  explicit WindowWorld(uint64_t seed) : random_(seed), allocator_(space_, mutex_, config()) {
    allocator_.set_reclaimer(&reclaimer_);
    reclaimer_.on_evict = [this](FakeOwner* owner) { owners_.erase(owner->address); };
  }

  // One request. If it evicts, the blocks are those of the cheapest window. True if it did.
  bool request() {
    const size_t bytes = 64 * random_.between(kPage / 64, 8 * kPage / 64);
    const std::vector<Owner> expected = cheapest_window(bytes);
    reclaimer_.evicted.clear();
    const uint64_t before = allocator_.statistics().windows;
    try {
      void* address = allocator_.allocate(bytes);
      FakeOwner* owner = reclaimer_.add(address, bytes, random_price(), random_.chance(10));
      DeviceLock lock(mutex_);
      allocator_.set_owner(address, owner);
      owners_[address] = owner;
    } catch (const OutOfMemory&) {
      CHECK(expected.empty());
      return false;
    }
    if (allocator_.statistics().windows == before) return false;
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
    FakeOwner& owner = *found->second;
    switch (random_.below(4)) {
      case 0:
        allocator_.free(owner.address);
        owner.address = nullptr;
        owners_.erase(found);
        break;
      case 1:
        owner.barrier = !owner.barrier && random_.chance(30);
        break;
      default:
        owner.price = random_price();
    }
  }

  void check_invariants() const { allocator_.check_invariants(); }

 private:
  struct Piece {
    size_t bytes;
    FakeOwner* owner;  // null: free
    bool barrier;
  };

  static AllocatorConfig config() {
    AllocatorConfig config = config_of(64);
    config.allow_remap = false;
    return config;
  }

  uint64_t random_price() { return random_.chance(20) ? 5 : random_.below(1000); }

  // The blocks as seen from outside, free neighbours as one.
  std::vector<Piece> pieces() const {
    std::vector<Piece> pieces;
    for (const BlockView& view : allocator_.blocks()) {
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
  DeviceMutex mutex_;
  test::FakeReclaimer reclaimer_;
  BudgetedAllocator allocator_;
  std::map<const void*, FakeOwner*> owners_;  // of live blocks, by address
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
