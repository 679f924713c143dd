// OutOfMemory: the error of a request that cannot be served, with a report of what is in use.
// Plain data, made by report_shortage() (shortage.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace tidepool {

// The bytes that are in use for one purpose; `use` names it in a user's words.
struct UsedBytes {
  std::string use;
  size_t bytes = 0;
};

// What an out-of-memory error has to say. format() gives the text that a user reads.
// Invariant: allocated_bytes is the sum over `pinned` and `evictable`.
struct OutOfMemoryReport {
  size_t requested_bytes = 0;
  size_t budget_bytes = 0;
  size_t limit_bytes = SIZE_MAX;  // what the device has been able to give, if that is known
  size_t committed_bytes = 0;
  size_t allocated_bytes = 0;
  size_t awaiting_bytes = 0;          // freed, but still used on other streams
  size_t largest_servable_bytes = 0;  // greatest request that could have been served
  // No smaller budget can serve this request at this moment, with what is pinned where it lies.
  size_t lower_bound_budget_bytes = 0;
  // A budget under which, by simulation of what the job has done, the request would have been
  // served; 0: unknown.
  size_t budget_to_try_bytes = 0;
  bool tried_steps = false;       // what was simulated has whole steps
  std::vector<UsedBytes> pinned;  // what cannot be evicted, the greatest first; as `evictable`
  std::vector<UsedBytes> evictable;
  size_t pinned_bytes() const;
  size_t evictable_bytes() const;
  std::string format() const;
};

class OutOfMemory : public std::runtime_error {
 public:
  explicit OutOfMemory(OutOfMemoryReport report);
  const OutOfMemoryReport& report() const { return report_; }

 private:
  OutOfMemoryReport report_;
};

}  // namespace tidepool
