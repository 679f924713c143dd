// SmallScope: a job of a few tensors, to each of which a few things may happen: writes, deaths,
// evictions, escapes, restores, and once a fork. Says in which state the runtime is, so that equal
// states can be merged, and whether contents are what an unlimited run would have.
// A state is left by starting over: the runtime is used again for the next list of events.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/remat_fixture.h"

namespace tidepool::sim {

struct Event {
  enum Kind : uint8_t {
    kUpdate,     // in place; reads `other`, too, if that is another tensor
    kOverwrite,  // likewise, but reads none of its old contents
    kDie,
    kDieLate,  // dead, but nobody has said so yet
    kReport,   // the late death is reported
    kEvict,
    kEscape,  // a raw pointer leaves and is written through
    kTouch,   // evicted: read, and so restored; escaped: written unseen
    kFork,    // from now on this is the child: it restores, and evicts nothing
    kCount
  };
  Kind kind = kUpdate;
  uint8_t tensor = 0;
  uint8_t other = 0;

  std::string text() const;
};

class SmallScope {
 public:
  static constexpr size_t kMostTensors = 4;
  // Bit k of the n-th mask: tensor n is made from tensor k, k < n. No bit: it comes from outside.
  using Shape = std::array<uint8_t, kMostTensors>;

  explicit SmallScope(size_t tensors) : count_(tensors) {}

  // Starts over.
  void begin(const Shape& shape);
  // False for what would do nothing.
  bool possible(const Event& event) const;
  void apply(const Event& event);

  // Equal for two states exactly if they differ in nothing that the future depends on, or only in
  // the tensors' numbers. In it: for each tensor whether it is alive, dying, evicted or escaped;
  // the graph of values and records above them, with what the records write and which values have
  // bytes of their own; whether retained roots are to be looked at; whether the process has forked.
  // Not in it: the bytes (each list of events ends in a comparison of all of them), addresses,
  // costs, ages and accesses (nothing is short of memory, so nothing is chosen by price), depths
  // and version counts (limits are out of reach), the order of lists (it decides in which order
  // things are restored).
  std::string key() const;

  // Reads all, evicts all, reads all again, drops all. Empty if all was well since begin().
  std::string end();

 private:
  struct Slot {
    SimulatedStorage* storage = nullptr;  // nullptr: dead
    bool late = false;
    bool escaped = false;
  };
  using Order = std::array<uint8_t, kMostTensors>;

  const remat::Storage& tracked(size_t k) const { return *slots_[k].storage->tracked; }
  bool is_live(size_t k) const { return slots_[k].storage != nullptr && !slots_[k].late; }
  void write(const Event& event);
  void act_on(const Event& event);
  void read_all();
  std::string encode(const Order& order) const;

  const size_t count_;
  std::unique_ptr<RematFixture> job_;
  std::array<Slot, kMostTensors> slots_;
  size_t storages_made_ = 0;
  size_t ends_ = 0;
  bool forked_ = false;
  std::string failure_;
};

}  // namespace tidepool::sim
