// ReplayScope: a scope in which the calling thread runs a replay.
// - A request that does not fit fails there with our error, not with PyTorch's: an operator that
//   takes PyTorch's error as a reason to choose another algorithm would do so from then on, also
//   when there is room again.
// - A kernel in Python is seen by nothing that the job has switched on in Python: modes that see
//   functions or operators, and torch.compile, which would trace it. Nothing else of the job's runs
//   meanwhile (Undisturbed): it would do so in the replay's state.
// Thread safe: each thread has its own.
#pragma once

#include <memory>

namespace tidepool::torch_glue {

bool is_replaying();

class ReplayScope {
 public:
  // `runs_python`: whether the kernel may be in Python.
  explicit ReplayScope(bool runs_python);
  ~ReplayScope();
  ReplayScope(const ReplayScope&) = delete;
  ReplayScope& operator=(const ReplayScope&) = delete;

 private:
  class Unseen;

  const bool before_;
  std::unique_ptr<Unseen> unseen_;
};

}  // namespace tidepool::torch_glue
