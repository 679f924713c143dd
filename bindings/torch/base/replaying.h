// ReplayScope: a scope in which the calling thread runs a replay. A request that does not fit fails
// there with our error, not with PyTorch's: an operator that takes PyTorch's error as a reason to
// choose another algorithm would do so from then on, also when there is room again.
// Thread safe: each thread has its own.
#pragma once

namespace tidepool::torch_glue {

bool is_replaying();

class ReplayScope {
 public:
  ReplayScope();
  ~ReplayScope();
  ReplayScope(const ReplayScope&) = delete;
  ReplayScope& operator=(const ReplayScope&) = delete;

 private:
  const bool before_;
};

}  // namespace tidepool::torch_glue
