// CpuRandom: what a drawing operator's replay needs of the CPU's random number generators.
// RandomState is a shared snapshot; DrawLock orders snapshots and kernels of drawing operators.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <memory>
#include <mutex>
#include <optional>

#include "allocator/lock_order.h"

namespace tidepool::torch_glue {

// State of a Mersenne twister before a draw. The 2.5 KB table is shared by the snapshots between
// two refills (FACTS: 185 ns a snapshot).
struct RandomState {
  std::shared_ptr<const at::mt19937_data_pod> table;
  int left = 0;
  uint32_t next = 0;
  uint64_t seed = 0;
  std::optional<float> next_float_normal;
  std::optional<double> next_double_normal;

  // Requires: the draw lock held.
  void capture(at::CPUGeneratorImpl& generator);
  void load_into(at::CPUGeneratorImpl& generator) const;
};

// Held from the snapshot to the end of the drawing kernel, so that no other thread draws between.
// Taken after inputs are restored, never while the device's lock is held. Recursive: an operator
// that draws may be replayed inside another one's restoration on the same thread.
class DrawLock {
 public:
  DrawLock();
  ~DrawLock() { mutex().unlock(); }
  DrawLock(const DrawLock&) = delete;
  DrawLock& operator=(const DrawLock&) = delete;

 private:
  using Mutex = RankedMutex<LockRank::kDraw, std::recursive_mutex>;
  static Mutex& mutex();
};

// Replays without a generator of their own draw from the default one: puts `state` into it, and
// leaves it as it was. Requires: the draw lock held throughout.
class DefaultGeneratorScope {
 public:
  explicit DefaultGeneratorScope(const RandomState& state);
  ~DefaultGeneratorScope();
  DefaultGeneratorScope(const DefaultGeneratorScope&) = delete;
  DefaultGeneratorScope& operator=(const DefaultGeneratorScope&) = delete;

 private:
  at::CPUGeneratorImpl& generator_;
  at::mt19937 engine_;
  std::optional<float> next_float_normal_;
  std::optional<double> next_double_normal_;
};

at::CPUGeneratorImpl& default_generator();
// A generator that only replays use. Requires: the draw lock held while it is used.
const at::Generator& private_generator();

}  // namespace tidepool::torch_glue
