// PageTable: which pages of the range are backed by physical memory, and by which handle (the
// AddressSpace's name for one page of physical memory); and the count of committed pages, which the
// budget limits.
// Owns the ids of handles; the AddressSpace owns what they name. Not thread safe: the caller holds
// the device's lock.
// Invariants: (1) committed = mapped + spare + promised pages, at most budget(); (2) no handle is
// in two places.
#pragma once

#include <algorithm>
#include <vector>

#include "allocator/space/address_space.h"
#include "allocator/space/device_limit.h"

namespace tidepool {

class PageTable {
 public:
  PageTable(size_t page_count, size_t budget_pages)
      : pages_(page_count), budget_pages_(budget_pages) {}

  enum class PageState : uint8_t { kEmpty, kAccessible, kInaccessible };
  struct Page {
    HandleId handle = HandleId::kNone;
    PageState state = PageState::kEmpty;
  };

  const Page& page(size_t index) const { return pages_[index]; }
  size_t page_count() const { return pages_.size(); }

  // How many pages may still be committed.
  size_t headroom() const { return budget() - committed_; }
  size_t committed() const { return committed_; }
  // Without those that the device has been asked for and has not given yet.
  size_t held() const { return committed_ - promised_; }
  size_t mapped() const { return mapped_; }
  // How many pages may be committed in all: the budget, or what the device has been able to give
  // if that is less.
  size_t budget() const { return std::min(given_budget(), device_limit_.pages()); }
  // The same, where the device is about to be asked again for what it has refused.
  size_t attainable() const { return std::min(given_budget(), device_limit_.last_pages()); }
  // The budget, or what is committed if that is more: a budget that was set lower than that comes
  // into force page by page, as pages are given back.
  size_t given_budget() const { return std::max(budget_pages_, committed_); }
  void set_budget(size_t pages) { budget_pages_ = pages; }

  // Counts `pages` as committed before the device is asked for them. Requires: headroom.
  void promise(size_t pages);
  // Says that the device has given one of the promised pages.
  void keep_promise();
  // Says that the device has refused one of the promised pages, or has taken it back.
  void break_promise();

  // What the device has refused to give beyond the committed pages.
  DeviceLimit& device_limit() { return device_limit_; }
  const DeviceLimit& device_limit() const { return device_limit_; }

  void set_mapped(size_t page, HandleId handle, bool accessible);
  // Forgets the page's mapping and returns its handle, which stays counted: it has to go to
  // set_mapped, add_spare or forget_released.
  HandleId take(size_t page);
  void add_spare(HandleId handle);
  // Returns a handle that is mapped nowhere, or kNone. It stays counted until it is in its next
  // place.
  HandleId take_spare();
  size_t spare_count() const { return spares_.size(); }
  void forget_released();

  void check_invariants() const;

 private:
  std::vector<Page> pages_;
  std::vector<HandleId> spares_;
  size_t budget_pages_;
  DeviceLimit device_limit_;  // at least what is committed
  size_t committed_ = 0;
  size_t mapped_ = 0;
  size_t promised_ = 0;
  size_t in_hand_ = 0;  // handles that were taken and are not placed yet
};

}  // namespace tidepool
