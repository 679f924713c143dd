// WorkRing: a file of bounded size with the last things that were done for a job on one device:
// memory taken and freed, evictions, restorations, replays, moves, steps. The file is mapped, and
// each event is in it at once: when the process is killed, it has all events up to then.
// Owns the file. Thread safe; takes a lock of its own, and calls nobody while it holds it.
// Events lie in segments, each of which begins with what is there at that moment, so that a reader
// can begin with any. When the last segment is full, the first one is written again.
// docs/work-ring.md describes the format, which `layout` has in C++.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "allocator/base/own_descriptor.h"
#include "allocator/locks/mutex.h"

namespace tidepool::remat {

enum class WorkKind : uint8_t {
  kTaken = 1,    // a block is handed out: offset, bytes, the operator that asked for it
  kFreed,        // offset, bytes
  kOwned,        // what the block is: offset, bytes, storage, its maker, role, root reason
  kEvicted,      // offset, bytes, storage, its maker; role 1: with a copy in the tier
  kRestored,     // offset, bytes, storage, its maker; role 1: from a copy in the tier
  kReplayed,     // `where` has the nanoseconds, `label` the operator
  kCopied,       // contents were copied to another block: offset that they had, bytes
  kHeld,         // bytes that are held from the device from now on
  kLimited,      // bytes that may be held from now on
  kStep,         // a step has ended
  kSearched,     // in the step that ends: nanoseconds of searches for room, and prices asked for
  kForgotten,    // an evicted storage has died
  kOutOfMemory,  // bytes that were asked for
  kNeeded,       // which operator has needed the storage that was restored just before
};

struct WorkEvent {
  uint64_t time_ns = 0;  // since the start of the recording
  uint64_t where = 0;    // distance of a block from the start of the range, or as the kind says
  uint64_t bytes = 0;    // less than 2^48; then the role, and the root reason
  uint32_t storage = 0;  // counted from 1
  uint16_t label = 0;    // number of a name, counted from 1; 0: not known
  uint8_t kind = 0;      // WorkKind; kAlready is set where it was so before the segment
  uint8_t check = 0;     // makes the exclusive or of all 32 bytes 0xa5
};
static_assert(sizeof(WorkEvent) == 32);

namespace layout {

inline constexpr char kMagic[8] = {'T', 'i', 'd', 'e', 'W', 'o', 'r', 'k'};
inline constexpr uint32_t kVersion = 1;
inline constexpr uint8_t kAlready = 0x80;
inline constexpr uint8_t kCheck = 0xa5;
inline constexpr size_t kNamesAt = 4096, kNamesBytes = size_t{1} << 18;
inline constexpr size_t kEventsAt = kNamesAt + kNamesBytes;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t event_bytes;
  uint64_t segment_events;
  uint32_t segments;
  uint32_t names_bytes;
  uint64_t began_unix_ns;
  uint64_t budget_bytes;
  uint32_t process;
  uint32_t reserved;
  char device[32];
  char name[128];
  // These change.
  uint64_t written;     // events so far, those that were written over included
  uint32_t names_used;  // bytes
  uint32_t ended;       // 1: the job has ended in order
  uint64_t ended_ns;
};
static_assert(sizeof(Header) == 240);

}  // namespace layout

// What a recording is of.
struct WorkRingFacts {
  std::string name;
  std::string device;  // as PyTorch writes it
  uint64_t budget_bytes = 0;
};

class WorkRing {
 public:
  static constexpr size_t kSegments = 8;

  // Makes the file, for at least `bytes` of events. Throws: std::runtime_error naming the path.
  WorkRing(const std::string& path, size_t bytes, const WorkRingFacts& facts);
  ~WorkRing();
  WorkRing(const WorkRing&) = delete;
  WorkRing& operator=(const WorkRing&) = delete;

  // `operator_name` and `maker` live as long as the process; nullptr: not known.
  void taken(size_t offset, size_t bytes, const char* operator_name);
  void freed(size_t offset, size_t bytes);
  // The block of a storage, which the caller knows by `key` until forgotten(). Writes nothing where
  // that is known.
  void owned(size_t offset, const void* key, const char* maker, uint8_t role, uint8_t reason);
  void evicted(size_t offset, size_t bytes, const void* key, const char* maker, bool copied);
  void restored(size_t offset, size_t bytes, const void* key, const char* maker, bool copied,
                const char* needed_by);
  void forgotten(const void* key);
  void replayed(const char* operator_name, uint64_t ns);
  void copied(size_t offset, size_t bytes);
  void held(size_t bytes);
  void limited(size_t bytes);
  void step_ended(uint64_t search_ns, uint64_t prices);
  void out_of_memory(size_t bytes);

  // The job ends: nothing is written from now on, and what was not needed of the file is given
  // back.
  void finish();
  // This process is a forked child, whose work is not recorded. Takes no lock.
  void become_forked_child() { open_.store(false, std::memory_order_relaxed); }

 private:
  struct Block {
    uint64_t bytes;  // as WorkEvent has them, with role and reason
    uint32_t storage;
    uint16_t label;
  };

  void add(WorkKind kind, uint64_t where, uint64_t bytes, uint32_t storage = 0, uint16_t label = 0)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void put(WorkEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void begin_segment() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint16_t label_of(const char* name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint32_t number_of(const void* key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t now() const;
  size_t room() const { return segment_events_ * kSegments; }

  Mutex mutex_;
  std::atomic<bool> open_{true};
  OwnDescriptor file_;
  size_t file_bytes_ = 0;
  char* map_ = nullptr;
  layout::Header* header_ = nullptr;
  WorkEvent* events_ = nullptr;
  size_t segment_events_ = 0;
  uint64_t began_ns_ = 0;
  uint64_t written_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t storages_ ABSL_GUARDED_BY(mutex_) = 0;
  uint16_t names_ ABSL_GUARDED_BY(mutex_) = 0;  // in the file
  uint64_t held_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t limit_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t search_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // as of the last step, as the next is
  uint64_t prices_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<const char*, uint16_t> labels_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const void*, uint32_t> numbers_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, Block> blocks_ ABSL_GUARDED_BY(mutex_);   // by offset
  absl::flat_hash_map<uint32_t, Block> evicted_ ABSL_GUARDED_BY(mutex_);  // by number
};

}  // namespace tidepool::remat
