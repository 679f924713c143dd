// PageTransaction: a sequence of device calls that commits, moves or gives back pages. It is
// planned with the lock held, run without it, and applied with it held again. A sequence that fails
// is not undone by further device calls, which might fail, too. What it has reached stays (as free
// pages, spare handles, or inaccessible pages to be tried again), so that nothing is lost and the
// count of committed pages is right at every moment. It touches only pages in ranges that its owner
// has claimed. Not thread safe.
#pragma once

#include <optional>
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

  // Plans to move a page. Requires, as all that plan: lock held; the pages lie in claimed ranges.
  void move(PageTable& pages, size_t from, size_t to);
  // Plans to map a spare handle, or to create one, which it promises to the table. Requires: there
  // is a spare handle, or headroom.
  void commit(PageTable& pages, size_t page);
  // Plans to give a page back to the device, which may be an inaccessible one.
  void give_back(PageTable& pages, size_t page);
  // Plans to give a spare handle back. Requires: there is one.
  void give_back_spare(PageTable& pages);

  // Says, instead of run(), that nothing will be done, and why.
  void refuse(const std::string& error) { note(error); }
  // Makes the device calls, until the first one that fails. Requires: lock not held. Never throws.
  void run();
  // Enters into the table what has happened. Requires: lock held; called once, after run().
  void apply(PageTable& pages, AllocatorObserver* observer = nullptr);

  // Whether run() has done everything.
  bool succeeded() const { return error_.empty(); }
  const std::string& error() const { return error_; }
  // The device had no memory for a new page; apply() enters that as its limit.
  bool device_refused() const { return device_refused_; }
  // The device will refuse all calls, as error() says.
  bool device_broken() const { return device_broken_; }
  size_t moved() const { return moved_; }
  size_t given_back() const { return given_back_; }

 private:
  // What happens to one handle: from which page to which. kNowhere: it is not mapped.
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
  // Throws: DeviceError; then there is none, and device_refused_ is set, unless it is DeviceBroken.
  HandleId create_handle();
  void open_targets();
  // Makes the targets of these steps accessible, which are neighbouring pages.
  void open_run(size_t first_step, size_t last_step);
  void give_back_steps();
  // Does these steps, which give neighbouring pages back, or one that gives a spare handle back.
  void give_back_run(size_t first_step, size_t last_step);
  void note(const std::string& error);

  AddressSpace& space_;
  Address base_;
  size_t page_bytes_;
  size_t reserve_bytes_;
  std::optional<size_t> available_bytes_;  // of the device, once it was asked
  std::vector<Step> steps_;
  std::string error_;
  bool device_refused_ = false;
  bool device_broken_ = false;
  size_t moved_ = 0;
  size_t given_back_ = 0;
};

}  // namespace tidepool
