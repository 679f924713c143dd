// RandomState: what a drawing operator's replay needs of a random number generator: its state
// before the draw. PrivateDraw runs a drawing kernel from a generator of the calling thread's own,
// so that the state that is remembered is the one that the kernel drew from, whatever other threads
// do to the job's generator meanwhile.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <memory>
#include <mutex>
#include <optional>

namespace tidepool::torch_glue {

// Bytes of the generators that threads have for draws and replays, and of the tables that records
// keep. Thread safe.
size_t random_state_bytes();

// The table of a Mersenne twister, counted in random_state_bytes().
struct TwisterTable {
  explicit TwisterTable(const at::mt19937_data_pod& from);
  ~TwisterTable();
  TwisterTable(const TwisterTable&) = delete;
  TwisterTable& operator=(const TwisterTable&) = delete;

  const at::mt19937_data_pod data;
};

// Of a Mersenne twister (the CPU's generators) its table, 2.5 KB, shared by the snapshots between
// two refills; of a counter-based generator (CUDA's Philox) seed and offset.
struct RandomState {
  std::shared_ptr<const TwisterTable> table;  // null: counter-based
  int left = 0;
  uint32_t next = 0;
  uint64_t seed = 0;
  uint64_t offset = 0;
  std::optional<float> next_float_normal;
  std::optional<double> next_double_normal;

  // Of a counter-based generator. Takes its lock.
  void read_counter(c10::GeneratorImpl& generator);
  // Puts the state into a generator that no other thread uses. Requires: the generator is of the
  // kind that the state came from.
  void load_into(c10::GeneratorImpl& generator) const;
};

// How the state of a generator of a device is set.
class GeneratorOffsets {
 public:
  // A kernel has drawn from the generator as far as `offset`. Nothing else of it changes: what
  // cuDNN's recurrent layers keep of it stays valid. Requires: the generator's lock held.
  virtual void set_generator_offset(c10::GeneratorImpl& generator, uint64_t offset) {
    generator.set_offset(offset);
  }

 protected:
  ~GeneratorOffsets() = default;
};

// Holds the lock of `source` for the length of a kernel that draws from generator() instead: seeds,
// state and draws of other threads come before it or after it, as they do with any kernel of
// PyTorch. The destructor leaves `source` as if the kernel had drawn from it.
// Made after inputs are restored, never while the device's lock is held.
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
  std::unique_lock<std::mutex> lock_;
  at::Generator* generator_ = nullptr;  // the thread's
};

c10::GeneratorImpl& default_generator(c10::Device device);
// The calling thread's generator that only replays on the device use.
const at::Generator& replay_generator(c10::Device device);

}  // namespace tidepool::torch_glue
