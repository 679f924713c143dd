// RandomState: what a drawing operator's replay needs of a random number generator: its state
// before the draw. DrawLock orders snapshots and kernels of drawing operators.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <memory>
#include <mutex>
#include <optional>

#include "allocator/lock_order.h"

namespace tidepool::torch_glue {

// Of a Mersenne twister (the CPU's generators) its table, 2.5 KB, shared by the snapshots between
// two refills (FACTS: 185 ns a snapshot); of a counter-based generator (CUDA's Philox) seed and
// offset. Requires for all: the draw lock held.
struct RandomState {
  std::shared_ptr<const at::mt19937_data_pod> table;  // null: counter-based
  int left = 0;
  uint32_t next = 0;
  uint64_t seed = 0;
  uint64_t offset = 0;
  std::optional<float> next_float_normal;
  std::optional<double> next_double_normal;

  void capture(c10::GeneratorImpl& generator);
  // Requires: the generator is of the kind that the state came from.
  void load_into(c10::GeneratorImpl& generator) const;

 private:
  void capture_twister(at::CPUGeneratorImpl& generator);
  void load_into_twister(at::CPUGeneratorImpl& generator) const;
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

// Replays without a generator of their own draw from the device's default one: puts `state` into
// it, and leaves it as it was. Requires: the draw lock held throughout.
class DefaultGeneratorScope {
 public:
  DefaultGeneratorScope(c10::Device device, const RandomState& state);
  ~DefaultGeneratorScope();
  DefaultGeneratorScope(const DefaultGeneratorScope&) = delete;
  DefaultGeneratorScope& operator=(const DefaultGeneratorScope&) = delete;

 private:
  c10::GeneratorImpl& generator_;
  RandomState before_;
};

c10::GeneratorImpl& default_generator(c10::Device device);
// A generator of the device that only replays use. Requires: the draw lock held while it is used.
const at::Generator& private_generator(c10::Device device);

}  // namespace tidepool::torch_glue
