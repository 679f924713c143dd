// Tier: a second place for contents, beside the device's memory: host memory, or a file. It holds
// copies, each in a slot, until they are dropped.
// Thread safe: store(), matches() and drop() are called under the device's lock, load() without.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace tidepool::remat {

// A copy's place in a tier.
enum class TierSlot : uint64_t {};

// Contents that lie in a tier cannot be had back.
struct TierError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct TierStatistics {
  uint64_t stores = 0, loads = 0;               // copies made, and brought back
  uint64_t stored_bytes = 0, loaded_bytes = 0;  // by them
  uint64_t store_ns = 0, load_ns = 0;           // for which callers have waited
  size_t held_bytes = 0, peak_bytes = 0;        // taken in the tier now, and at most so far
  uint64_t refusals = 0;  // stores for which there was no room, or that failed
};

class Tier {
 public:
  virtual ~Tier() = default;

  // Where the contents go, in a user's words.
  virtual std::string describe() const = 0;

  // Whether contents of so many bytes would find room now.
  virtual bool has_room(size_t bytes) const = 0;
  // Copies `bytes` from the block at `from`. nullopt: there is no room, or the tier has failed;
  // nothing has happened then.
  virtual std::optional<TierSlot> store(const void* from, size_t bytes) = 0;
  // Brings the copy back to the block `to`, as large as the one it was made from. The slot stays
  // valid. Throws: TierError, if the bytes that were stored cannot be read; what is in the block
  // does not matter then.
  virtual void load(TierSlot slot, void* to) = 0;
  // Whether the block at `at` has the same contents as the copy, as far as a checksum says.
  virtual bool matches(TierSlot slot, const void* at) = 0;
  virtual void drop(TierSlot slot) = 0;

  // How long store() and load() take, in the unit of operators' costs.
  virtual uint64_t store_ns(size_t bytes) const = 0;
  virtual uint64_t load_ns(size_t bytes) const = 0;
  // Has these two say what was measured since. True: they say something else now.
  virtual bool settle_prices() { return false; }

  virtual TierStatistics statistics() const = 0;

  // In a forked child: nothing is stored any more, and what was stored can be loaded only as long
  // as the parent has not put anything else in its place.
  virtual void become_forked_child() = 0;
};

}  // namespace tidepool::remat
