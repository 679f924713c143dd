// PageTransaction: a sequence of device calls that commits, moves or gives back pages, planned with
// the lock held, run without it, and applied with it held again.
// Never undone by further device calls, which might fail too: what a failed sequence has reached
// stays (as free pages, spare handles, or inaccessible pages to be tried again), so that nothing is
// lost and the committed count is right at every moment.
// Touches only pages of ranges that its owner has claimed. Not thread safe.
#pragma once

#include <string>
#include <vector>

#include "allocator/base/allocator_observer.h"
#include "allocator/space/address_space.h"
#include "allocator/space/page_table.h"

namespace tidepool {

class PageTransaction {
 public:
  // New pages are taken only where the device keeps `reserve_bytes` besides.
  PageTransaction(AddressSpace& space, Address base, size_t page_bytes, size_t reserve_bytes = 0)
      : space_(space), base_(base), page_bytes_(page_bytes), reserve_bytes_(reserve_bytes) {}

  // Plan. Requires: lock held; the pages are in claimed ranges; moves and commits in any order.
  void move(PageTable& pages, size_t from, size_t to);
  // Maps a spare handle, or promises a new page. Requires: either, or both, at hand.
  void commit(PageTable& pages, size_t page);
  // Gives the page back to the device, also an inaccessible one.
  void give_back(PageTable& pages, size_t page);
  // Gives a spare handle back. Requires: there is one.
  void give_back_spare(PageTable& pages);

  // Instead of run(): nothing is done.
  void refuse(const std::string& error) { note(error); }
  // Makes the device calls, until the first one that fails. Requires: lock not held. Never throws.
  void run();
  // Enters into the table what has happened. Requires: lock held; once, after run().
  void apply(PageTable& pages, AllocatorObserver* observer = nullptr);

  // After run(): everything has been done.
  bool succeeded() const { return error_.empty(); }
  const std::string& error() const { return error_; }
  // The device had no memory for a new page; apply() enters that as its limit.
  bool device_refused() const { return device_refused_; }
  size_t moved() const { return moved_; }
  size_t given_back() const { return given_back_; }

 private:
  // Where a handle was and is to be; kNowhere: not mapped.
  static constexpr size_t kNowhere = static_cast<size_t>(-1);
  enum class Fate : uint8_t { kUntouched, kUnmapped, kMapped, kAccessible, kReleased };
  struct Step {
    size_t from = kNowhere;
    size_t to = kNowhere;
    HandleId handle = HandleId::kNone;  // kNone: to be created
    bool promised = false;              // counted as a promise, not in hand
    Fate fate = Fate::kUntouched;
  };

  Address address(size_t page) const { return base_ + page * page_bytes_; }
  void fill_targets();
  // Throws: DeviceError; then there is none, and device_refused_ is set.
  HandleId create_handle();
  void open_targets();
  // Steps whose target is mapped: to be opened in runs of neighbouring pages.
  void open_run(size_t first_step, size_t last_step);
  void give_back_steps();
  // Steps of neighbouring pages, or one of a spare handle.
  void give_back_run(size_t first_step, size_t last_step);
  void note(const std::string& error);

  AddressSpace& space_;
  Address base_;
  size_t page_bytes_;
  size_t reserve_bytes_;
  std::vector<Step> steps_;
  std::string error_;
  bool device_refused_ = false;
  size_t moved_ = 0;
  size_t given_back_ = 0;
};

}  // namespace tidepool
