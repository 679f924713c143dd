// Union-find, pools and the checks of contents against containers of the standard library.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "remat/lineage/components.h"
#include "remat/lineage/pool.h"
#include "tests/support/catch.h"
#include "tests/support/operation_fuzz.h"

namespace tidepool::remat {
namespace {

using test::expect;
using test::expect_equal;
using test::Operation;
using test::OperationKind;

class ComponentsModel {
 public:
  enum Kind { kAdd, kUnite, kRemove, kAsk };
  static constexpr OperationKind kKinds[] = {
      {"kAdd", 6}, {"kUnite", 6}, {"kRemove", 4}, {"kAsk", 4}};

  explicit ComponentsModel(uint64_t) {}

  bool run(const Operation& op) {
    if (op.kind == kAdd) {
      if (members_.size() == kMost) return false;
      const Components::Node node = components_.add(op.a);
      for (const Member& other : members_) expect(other.node != node);
      members_.push_back({node, op.a, ++newest_});
    } else if (members_.empty()) {
      return false;
    } else {
      change(op, members_[op.b % members_.size()], members_[op.c % members_.size()]);
    }
    compare();
    return true;
  }
  void finish() {
    while (!members_.empty()) remove(members_.back());
    components_.check_invariants();
    expect_equal(components_.nodes(), size_t{0});
  }

 private:
  static constexpr size_t kMost = 40;
  struct Member {
    Components::Node node;
    uint64_t cost_ns;
    uint64_t component;
  };

  void change(const Operation& op, Member& a, Member& b) {
    if (op.kind == kUnite) {
      components_.unite(a.node, b.node);
      const uint64_t gone = b.component, stays = a.component;
      for (Member& each : members_) {
        if (each.component == gone) each.component = stays;
      }
    } else if (op.kind == kRemove) {
      remove(a);
    } else {
      expect_equal(components_.find(a.node) == components_.find(b.node),
                   a.component == b.component);
      expect_equal(components_.own_ns(a.node), a.cost_ns);
    }
  }
  void remove(Member& member) {
    components_.remove(member.node);
    members_.erase(members_.begin() + (&member - members_.data()));
  }
  void compare() {
    components_.check_invariants();
    std::map<uint64_t, uint64_t> sums;
    for (const Member& each : members_) sums[each.component] += each.cost_ns;
    if (!members_.empty()) {
      const Member& one = members_[++asked_ % members_.size()];
      expect_equal(components_.sum_ns(one.node), sums.at(one.component));
    }
    expect(components_.nodes() >= members_.size());
  }

  Components components_;
  std::vector<Member> members_;
  uint64_t newest_ = 0, asked_ = 0;
};

class ObjectPoolModel {
 public:
  enum Kind { kTake, kPut };
  static constexpr OperationKind kKinds[] = {{"kTake", 6}, {"kPut", 5}};

  explicit ObjectPoolModel(uint64_t) {}

  bool run(const Operation& op) {
    if (op.kind == kTake) {
      Thing* thing = pool_.take();
      expect_equal(thing->number, 7u);
      thing->number = op.a;
      expect(live_.emplace(thing, op.a).second);
      order_.push_back(thing);
    } else {
      if (order_.empty()) return false;
      std::swap(order_[op.a % order_.size()], order_.back());
      live_.erase(order_.back());
      pool_.put(order_.back());
      order_.pop_back();
    }
    expect_equal(pool_.live(), live_.size());
    if (op.b % 16 == 0) compare();
    return true;
  }
  void finish() { compare(); }

 private:
  struct Thing {
    uint32_t number = 7;
  };
  void compare() {
    size_t seen = 0;
    pool_.for_each([&](const Thing& thing) {
      ++seen;
      expect_equal(live_.at(&thing), thing.number);
    });
    expect_equal(seen, live_.size());
  }

  ObjectPool<Thing> pool_;
  std::map<const Thing*, uint32_t> live_;
  std::vector<Thing*> order_;
};

class SlabPoolModel {
 public:
  enum Kind { kTake, kPut };
  static constexpr OperationKind kKinds[] = {{"kTake", 6}, {"kPut", 5}};

  explicit SlabPoolModel(uint64_t) {}
  ~SlabPoolModel() {
    for (const Slab& slab : slabs_) pool_.put(slab.start, slab.bytes);
  }

  bool run(const Operation& op) {
    if (op.kind == kTake) {
      const size_t bytes = op.b % 8 == 0 ? op.a % 5000 : op.a % 300;
      auto* start = static_cast<unsigned char*>(pool_.take(bytes));
      expect_equal(reinterpret_cast<uintptr_t>(start) % 16, uintptr_t{0});
      slabs_.push_back({start, bytes, static_cast<unsigned char>(op.c)});
      std::memset(start, slabs_.back().stamp, bytes);
      rounded_ += rounded(bytes);
    } else {
      if (slabs_.empty()) return false;
      std::swap(slabs_[op.a % slabs_.size()], slabs_.back());
      const Slab slab = slabs_.back();
      slabs_.pop_back();
      // Nobody else has written into it.
      expect(std::all_of(slab.start, slab.start + slab.bytes,
                         [&](unsigned char byte) { return byte == slab.stamp; }));
      pool_.put(slab.start, slab.bytes);
      rounded_ -= rounded(slab.bytes);
    }
    expect_equal(pool_.live(), slabs_.size());
    expect_equal(pool_.bytes(), rounded_);
    return true;
  }
  void finish() {
    Operation put{kPut};
    while (!slabs_.empty()) run(put);
  }

 private:
  struct Slab {
    unsigned char* start;
    size_t bytes;
    unsigned char stamp;
  };
  static size_t rounded(size_t bytes) { return (std::max(bytes, size_t{1}) + 31) / 32 * 32; }

  SlabPool pool_;
  std::vector<Slab> slabs_;
  size_t rounded_ = 0;
};

TEST_CASE("components are sets that are joined and never split") {
  test::fuzz<ComponentsModel>("ComponentsModel");
}
TEST_CASE("an object pool holds what was taken and not put back") {
  test::fuzz<ObjectPoolModel>("ObjectPoolModel", 2000);
}
TEST_CASE("slabs belong to one taker each") { test::fuzz<SlabPoolModel>("SlabPoolModel", 2000); }

}  // namespace
}  // namespace tidepool::remat
