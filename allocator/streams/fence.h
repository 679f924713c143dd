// Fence: the interface to work that still uses memory: a fence has passed once the work before it
// is done. Implementations are thread safe. passed() is cheap and never blocks; wait() blocks until
// the fence has passed.
#pragma once

namespace tidepool {

class Fence {
 public:
  virtual ~Fence() = default;
  // Once this is true, it stays true.
  virtual bool passed() = 0;
  virtual void wait() = 0;
};

}  // namespace tidepool
