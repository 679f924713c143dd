// RandomState: the state of a random number generator before a draw, as a replay of the drawing
// operator needs it. PrivateDraw runs a drawing kernel from a generator that only the calling
// thread uses, so that the state that is remembered is the one that the kernel drew from, whatever
// other threads do to the job's generator meanwhile. SeriesOfDraws is the same for several kernels.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <memory>
#include <mutex>
#include <optional>

namespace tidepool::torch_glue {

// The bytes of the generators that threads have for draws and replays, and of the tables that
// records keep.
// Thread safe.
size_t random_state_bytes();

// The table of a Mersenne twister, counted in random_state_bytes().
struct TwisterTable {
  explicit TwisterTable(const at::mt19937_data_pod& from);
  ~TwisterTable();
  TwisterTable(const TwisterTable&) = delete;
  TwisterTable& operator=(const TwisterTable&) = delete;

  const at::mt19937_data_pod data;
};

// For a Mersenne twister (the CPU's generators) this is its table of 2.5 KB, which the snapshots
// between two refills share; for a counter-based generator (CUDA's Philox) it is seed and offset.
struct RandomState {
  std::shared_ptr<const TwisterTable> table;  // null for a counter-based generator
  int left = 0;
  uint32_t next = 0;
  uint64_t seed = 0;
  uint64_t offset = 0;
  std::optional<float> next_float_normal;
  std::optional<double> next_double_normal;

  // Puts the state into a generator that no other thread uses. Requires: the generator is of the
  // kind that the state came from.
  void load_into(c10::GeneratorImpl& generator) const;
};

// An interface by which the state of a device's generator is set.
class GeneratorOffsets {
 public:
  // Sets how far kernels have drawn from the generator. Nothing else of the generator changes, so
  // that what cuDNN's recurrent layers keep of it stays valid. Requires: the generator's lock is
  // held.
  virtual void set_generator_offset(c10::GeneratorImpl& generator, uint64_t offset) {
    generator.set_offset(offset);
  }

 protected:
  ~GeneratorOffsets() = default;
};

// A scope in which a kernel draws from generator() instead of `source`, whose lock is held
// meanwhile: other threads' seeds, states and draws come before the kernel or after it, as they do
// with any kernel of PyTorch. The destructor leaves `source` as if the kernel had drawn from it.
// It is made after inputs are restored, and never while the device's lock is held.
class PrivateDraw {
 public:
  // Writes the state before the draw to `state`.
  PrivateDraw(GeneratorOffsets& offsets, c10::GeneratorImpl& source, RandomState& state);
  ~PrivateDraw();
  PrivateDraw(const PrivateDraw&) = delete;
  PrivateDraw& operator=(const PrivateDraw&) = delete;

  const at::Generator& generator() const { return *generator_; }

 private:
  void begin_twister(RandomState& state);
  void end_twister();

  GeneratorOffsets& offsets_;
  c10::GeneratorImpl& source_;
  std::unique_lock<std::mutex> turn_;  // as TurnToDraw has it
  std::unique_lock<std::mutex> lock_;
  at::Generator* generator_ = nullptr;  // the calling thread's own
};

// A scope in which no other thread that is seen draws from a CUDA device's default generator.
// Within one, another one of the same thread does nothing.
class TurnToDraw {
 public:
  explicit TurnToDraw(c10::Device device);
  ~TurnToDraw();
  TurnToDraw(const TurnToDraw&) = delete;
  TurnToDraw& operator=(const TurnToDraw&) = delete;

  static bool is_taken_by_this_thread();

 private:
  std::unique_lock<std::mutex> lock_;
};

// A scope in which the calling thread draws as if from the default generator of a CUDA device, by
// several kernels. Meanwhile it may wait for Python, so that the generator cannot stay locked;
// instead, draws of other threads wait for their turn. What else is set in the generator meanwhile
// comes after the draws; what is drawn from it unseen has been drawn twice.
// It is made and destroyed by one thread, which must not have the turn before.
class SeriesOfDraws {
 public:
  explicit SeriesOfDraws(c10::Device device);
  SeriesOfDraws(const SeriesOfDraws&) = delete;
  SeriesOfDraws& operator=(const SeriesOfDraws&) = delete;

  c10::Device device() const { return source_.device(); }
  // Before the draws.
  uint64_t seed() const { return seed_; }
  uint64_t offset() const { return offset_; }
  // Leaves the generator as if the kernels had drawn from it up to `offset`. False: somebody else
  // has drawn from it since, or set it to a later state; it stays there.
  [[nodiscard]] bool end(GeneratorOffsets& offsets, uint64_t offset);

 private:
  const TurnToDraw turn_;
  c10::GeneratorImpl& source_;
  uint64_t seed_;
  uint64_t offset_;
};

// The calling thread's generator for replays on the device, which nothing else uses.
const at::Generator& replay_generator(c10::Device device);

}  // namespace tidepool::torch_glue
