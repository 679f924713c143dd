// PageTable: which handle backs which page (handle-sized piece) of the range, and the count of
// committed handles against the budget.
// Owns the ids of handles (the AddressSpace owns what they name). Not thread safe: lock held.
// Invariants: (1) committed = mapped pages + spare handles + promised ones, at most the budget;
// (2) no handle is in two places.
#pragma once

#include <vector>

#include "allocator/space/address_space.h"

namespace tidepool {

class PageTable {
 public:
  PageTable(size_t page_count, size_t budget_handles)
      : pages_(page_count), budget_handles_(budget_handles) {}

  enum class PageState : uint8_t { kEmpty, kAccessible, kInaccessible };
  struct Page {
    HandleId handle = HandleId::kNone;
    PageState state = PageState::kEmpty;
  };

  const Page& page(size_t index) const { return pages_[index]; }
  size_t page_count() const { return pages_.size(); }

  // Handles that may still be committed.
  size_t headroom() const { return budget_handles_ - committed_; }
  size_t committed() const { return committed_; }
  size_t mapped() const { return mapped_; }
  size_t budget() const { return budget_handles_; }
  void set_budget(size_t handles) { budget_handles_ = handles; }

  // Counts `handles` as committed before the device is asked for them. Requires: headroom.
  void promise(size_t handles);
  // The device has given one of the promised handles / refused it or has taken it back.
  void keep_promise();
  void break_promise();

  void set_mapped(size_t page, HandleId handle, bool accessible);
  // Forgets the mapping and returns its handle, still counted: it has to go to set_mapped,
  // add_spare or forget_released.
  HandleId take(size_t page);
  void add_spare(HandleId handle);
  // A created but unmapped handle, or kNone. Counted until it is in its next place.
  HandleId take_spare();
  size_t spare_count() const { return spares_.size(); }
  void forget_released();

  void check_invariants() const;

 private:
  std::vector<Page> pages_;
  std::vector<HandleId> spares_;
  size_t budget_handles_;
  size_t committed_ = 0;
  size_t mapped_ = 0;
  size_t promised_ = 0;
  size_t in_hand_ = 0;  // taken, not placed yet
};

}  // namespace tidepool
