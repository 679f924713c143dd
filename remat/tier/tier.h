// Tier: a second place for contents, beside the device's memory: host memory, or a file. It holds
// copies, each in a slot, until they are dropped.
// Thread safe: store(), matches() and drop() are called under the device's lock, load() without.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "allocator/base/stream_id.h"
#include "allocator/streams/copy_engine.h"

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

// The streams on which a tier's copies run.
struct TierStreams {
  StreamId out;  // to the tier
  StreamId in;   // from it
};

class Tier {
 public:
  virtual ~Tier() = default;

  // Where the contents go, in a user's words.
  virtual std::string describe() const = 0;

  // The most bytes that it could hold, were it empty.
  virtual uint64_t most_bytes() const = 0;
  // Whether contents of so many bytes would find room now.
  virtual bool has_room(size_t bytes) const = 0;
  // Whether contents of so many bytes would be stored beside operators, and nothing else that is
  // stored would have to move for them.
  virtual bool stores_beside(size_t bytes) const { return runs_beside() && has_room(bytes); }
  // Copies `bytes` from the block at `from`, after all that `users` have been given, the streams
  // whose work may use the block. nullopt: there is no room, or the tier has failed; nothing has
  // happened then.
  virtual std::optional<TierSlot> store(const void* from, size_t bytes,
                                        std::span<const StreamId> users) = 0;
  // Brings the copy back to the block `to`, as large as the one it was made from, which work on
  // `user` could use now. The slot stays valid. Throws: TierError, if the bytes that were stored
  // cannot be read; what is in the block does not matter then.
  virtual void load(TierSlot slot, void* to, StreamId user) = 0;
  // The streams on which copies run that store() and load() only enqueue: the caller orders other
  // work after them. nullptr: both return when the bytes have been copied.
  virtual const TierStreams* streams() const { return nullptr; }
  // Passes when all copies so far in a direction have run, on their stream. nullptr: there was
  // none, or that is not known.
  virtual std::shared_ptr<Fence> last(CopyDirection) const { return nullptr; }
  // Whether load() returns before the bytes have been copied, and they come while operators run: a
  // load that begins early then costs the job less time.
  virtual bool runs_beside() const { return streams() != nullptr; }
  // Whether matches() can tell. If not, a copy is of no use once it has been loaded.
  virtual bool compares() const { return true; }
  // Whether the block at `at` has the same contents as the copy, as far as a checksum says.
  virtual bool matches(TierSlot slot, const void* at) = 0;
  virtual void drop(TierSlot slot) = 0;

  // How long store() and load() take, in the unit of operators' costs.
  virtual uint64_t store_ns(size_t bytes) const = 0;
  virtual uint64_t load_ns(size_t bytes) const = 0;
  // Has these two say what was measured since. True: they say something else now.
  virtual bool settle_prices() { return false; }

  virtual TierStatistics statistics() const = 0;

  // Are called before a fork, and after it in the parent and in the child. In the child nothing is
  // stored any more, and what was stored can be loaded only as long as the parent has not put
  // anything else in its place.
  virtual void before_fork() {}
  virtual void after_fork_in_parent() {}
  virtual void become_forked_child() = 0;
};

}  // namespace tidepool::remat
