// PageSupply: puts pages under claimed addresses, new ones or ones that move there from elsewhere,
// and gives free ones back to the device.
// Owns the arena's pages from its start to its end. Every function requires the device's lock, and
// releases it while the device is asked; what it works on is claimed meanwhile.
// See docs/life-of-an-allocation.md, "Device calls".
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "allocator/arena/arena.h"
#include "allocator/space/page_transaction.h"

namespace tidepool {

class PageSupply {
 public:
  // For memory without virtual addresses all pages are committed at once. Throws: DeviceError.
  explicit PageSupply(Arena& arena);
  ~PageSupply();
  PageSupply(const PageSupply&) = delete;
  PageSupply& operator=(const PageSupply&) = delete;

  // Puts pages under the plan's site and hands it out. Requires: the victims are evicted, and
  // nothing was merged since.
  Outcome fill(DeviceLock& lock, const Request& request, const PagesPlan& plan, BlockId& served);
  // Gives every wholly free page back, once all work on freed blocks is done. Returns their bytes.
  size_t give_back(DeviceLock& lock);
  // See BudgetedAllocator::set_limit().
  size_t set_limit(DeviceLock& lock, size_t bytes);

 private:
  struct Claims {
    Claim target;
    std::vector<Claim> sources;
  };

  void commit_everything();
  void give_everything_back();
  // Nobody else can take the site or the pages that move from now on.
  Claims claim(const PagesPlan& plan);
  // `emptied`: claimed blocks whose pages go, once the streams that used them are through.
  void run(DeviceLock& lock, PageTransaction& transaction, std::vector<Claim>& emptied);
  void measure(const PageTransaction& transaction, double took_ns);

  Arena& arena_;
};

}  // namespace tidepool
