// PageSupply: puts pages under claimed addresses, taken from the device or moved there from
// elsewhere, and gives free pages back to the device.
// Owns the arena's pages from its own start to its end. Every function requires the device's lock,
// and releases it during device calls; the blocks that these are about are claimed meanwhile.
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
  // Commits all pages at once where the device has no virtual memory. Throws: DeviceError.
  explicit PageSupply(Arena& arena);
  ~PageSupply();
  PageSupply(const PageSupply&) = delete;
  PageSupply& operator=(const PageSupply&) = delete;

  // Serves the request: puts pages under the plan's site and hands it out. Requires: the victims
  // are evicted, and nothing was merged since.
  Outcome serve(DeviceLock& lock, const Request& request, const PagesPlan& plan, BlockId& served);
  // Gives every wholly free page back, once all work on freed blocks is done. Returns how many
  // bytes these were.
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
  // Claims the site and the pages that will move, so that nobody else can take them.
  Claims claim(const PagesPlan& plan);
  // Makes the transaction's device calls. `emptied`: claimed blocks whose pages it takes away,
  // which waits for the streams that used them.
  void run(DeviceLock& lock, PageTransaction& transaction, std::vector<Claim>& emptied);
  void measure(const PageTransaction& transaction, double waited_ns, double took_ns);

  Arena& arena_;
};

}  // namespace tidepool
