// FakeReclaimer: a Reclaimer for tests of the allocator: owners are FakeOwner structs with a price,
// a barrier and the block they own; eviction empties them, or is refused where told so. What has a
// price of moving is moved, where `allocator` is set, by `on_move` or without looking at bytes.
// Owns the owners it makes. Not thread safe: called with the allocator's lock held.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "allocator/arena/reclaimer.h"
#include "allocator/budgeted_allocator.h"

namespace tidepool::test {

struct FakeOwner {
  void* address = nullptr;  // null: evicted or freed
  size_t bytes = 0;
  uint64_t price = 0;
  bool barrier = false;
  bool refuses = false;          // has a price, but evict() returns false
  size_t free_beside_bytes = 0;  // when its price was last asked for
  std::optional<uint64_t> move_price = {};
  bool may_be_shortlisted = true;
};

class FakeReclaimer final : public Reclaimer {
 public:
  FakeOwner* add(void* address, size_t bytes, uint64_t price, bool barrier = false) {
    owners_.push_back(std::make_unique<FakeOwner>(FakeOwner{address, bytes, price, barrier}));
    return owners_.back().get();
  }
  std::vector<FakeOwner*> owners() const {
    std::vector<FakeOwner*> all;
    for (const auto& owner : owners_) all.push_back(owner.get());
    return all;
  }
  static Owner as_owner(FakeOwner* owner) { return owner; }

  void begin_search() override { ++searches; }
  bool asks_for_free_beside() const override { return true; }
  bool allows_shortlists() const override { return shortlists; }
  bool may_be_shortlisted(Owner owner) const override {
    return owner == nullptr || static_cast<const FakeOwner*>(owner)->may_be_shortlisted;
  }
  Preference preference() const override { return preferred; }
  Price price(Owner owner, size_t free_beside_bytes) override {
    ++priced;
    auto* fake = static_cast<FakeOwner*>(owner);
    fake->free_beside_bytes = free_beside_bytes;
    return fake->barrier ? Price::blocked() : Price{fake->price, false};
  }
  double price_per_byte(Owner owner, size_t free_beside_bytes) override {
    auto* fake = static_cast<FakeOwner*>(owner);
    fake->free_beside_bytes = free_beside_bytes;
    if (fake->barrier) return kNever;
    return static_cast<double>(fake->price) / static_cast<double>(fake->bytes);
  }
  bool evict(Owner owner) override {
    auto* fake = static_cast<FakeOwner*>(owner);
    if (fake->refuses) return false;
    if (on_evict) on_evict(fake);
    evicted.push_back(fake);
    fake->address = nullptr;
    return true;
  }
  Price move_price(Owner owner) override {
    const auto* fake = static_cast<FakeOwner*>(owner);
    return fake->move_price ? Price{*fake->move_price, false} : Price::blocked();
  }
  uint64_t time_price(Owner, uint64_t ns) override { return ns; }
  uint64_t copy_ns(size_t bytes) const override { return copy_price * bytes / (64 << 10); }
  bool move(DeviceLock& lock, Owner owner, void* to) override {
    auto* fake = static_cast<FakeOwner*>(owner);
    if (on_move && !on_move(lock, fake, to)) return false;
    allocator->set_owner(fake->address, nullptr);
    allocator->set_owner(to, owner);
    fake->address = to;
    moved.push_back(fake);
    return true;
  }
  bool give_up_or_wait(DeviceLock& lock) override {
    ++waits;
    return on_wait ? on_wait(lock) : false;
  }
  void tell_uses(std::span<HeldBlock> blocks) override {
    for (HeldBlock& block : blocks) {
      const auto* fake = static_cast<const FakeOwner*>(block.owner);
      if (fake != nullptr) block.use = fake->barrier ? "barriers" : "others";
    }
  }

  std::vector<FakeOwner*> evicted;  // in order
  std::vector<FakeOwner*> moved;
  size_t searches = 0;
  size_t priced = 0;        // calls of price()
  bool shortlists = false;  // to be set before the allocator knows this
  Preference preferred = Preference::kCheapest;
  uint64_t copy_price = 0;  // of 64 KiB
  size_t waits = 0;
  std::function<void(FakeOwner*)> on_evict;
  std::function<bool(DeviceLock&)> on_wait;
  BudgetedAllocator* allocator = nullptr;  // set where something has a price of moving
  std::function<bool(DeviceLock&, FakeOwner*, void*)> on_move;

 private:
  std::vector<std::unique_ptr<FakeOwner>> owners_;
};

}  // namespace tidepool::test
