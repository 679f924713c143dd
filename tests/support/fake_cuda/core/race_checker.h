// RaceChecker: reports memory that is used again before its last use is known to be over.
// Whoever hands out memory (an allocator, or a test in its place) declares ranges: allocated for a
// stream, shared with another (record_stream), used by an operation, freed. Each operation of a
// stream counts as a use of every live range that the stream owns or shares; an operand counts
// whatever its owner. A range that is allocated again inherits the uses of those it lies on, and
// they must have happened before the first operation of a stream that owns or shares it. Within the
// life of a range an operand must come after what has written it, and a write after all that was an
// operand. Memory that goes back to the device must not have uses that the host has not waited for.
// Not thread safe: the machine's lock is held. Costs nothing per operation but what was newly
// allocated.
// Invariants: (1) live ranges do not overlap, nor do freed ones, nor a live and a freed one.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/fake_cuda/core/vector_clock.h"

namespace tidepool::fake_cuda {

struct Race {
  enum class Kind : uint8_t {
    kReuse,          // allocated again, and used, before a use of it before was over
    kUnordered,      // an operand before its write was over, or written before a use was
    kReturned,       // given back to the device with a use not waited for, or while allocated
    kUsedAfterFree,  // an operand lies in a range that was freed
    kMisdeclared,    // allocated twice, or freed without being allocated
  };
  Kind kind;
  uintptr_t address;
  size_t bytes;
  StreamId stream{};   // of the later use
  StreamId earlier{};  // of the use not known to be over
  Tick earlier_tick = 0;
};

const char* name_of(Race::Kind kind);
std::string describe(const Race& race);

class RaceChecker {
 public:
  void allocated(uintptr_t address, size_t bytes, StreamId owner, Tick now);
  // Whatever was enqueued on the stream until the range is freed counts as a use.
  void shared(uintptr_t address, StreamId stream);
  // What an operation does to an operand. One that is captured runs later, ordered by the launch of
  // its graph.
  enum class Use : uint8_t { kCaptured, kRead, kWritten };
  // By an operation of a stream, which has this clock now. Memory that nobody declared is of no
  // interest.
  void used(uintptr_t address, size_t bytes, Use use, StreamId stream, Tick tick,
            const VectorClock& clock);
  // `newest` gives the newest operation of each stream.
  void freed(uintptr_t address, const VectorClock& newest);

  // A stream enqueued an operation; its clock includes the operation.
  void operation(StreamId stream, const VectorClock& clock);
  // A stream launched a graph that was captured on `captured`: an operation of the one stream uses
  // what the other owns.
  void replayed(StreamId captured, StreamId stream, Tick tick);
  // The addresses lose their memory; `host` is what the host has waited for.
  void returned(uintptr_t address, size_t bytes, const VectorClock& newest,
                const VectorClock& host);

  const std::vector<Race>& races() const { return races_; }
  void forget_races() { races_.clear(); }
  size_t live_ranges() const { return live_.size(); }

 private:
  using Uses = std::map<StreamId, Tick>;  // the last one of each stream
  struct Write {
    uintptr_t begin, end;
    StreamId stream;
    Tick tick;
  };
  struct Range {
    uintptr_t end = 0;
    StreamId owner{};
    uint64_t born = 0;               // the checker's count of declarations and replays
    std::map<StreamId, Tick> since;  // what owner and sharers enqueued after this counts
    Uses operands;
    Uses ran;                   // those of them that were not captured
    std::vector<Write> writes;  // none covers another one
    Uses inherited;
    std::set<StreamId> checked;  // streams whose first use is known to come after `inherited`
  };
  struct Freed {
    uintptr_t end;
    Uses uses;
  };
  struct Replay {
    Tick tick;
    uint64_t count;
  };

  std::map<uintptr_t, Range>::iterator live_at(uintptr_t address);
  void check_order(uintptr_t address, size_t bytes, Range& range, Use use, StreamId stream,
                   Tick tick, const VectorClock& clock);
  void check(uintptr_t address, Range& range, StreamId stream, const VectorClock& clock);
  Uses uses_of(const Range& range, const VectorClock& newest) const;
  void bury(uintptr_t start, uintptr_t end, const Uses& uses);
  // Takes what is freed in a range out of the books, and returns the uses.
  Uses exhume(uintptr_t start, uintptr_t end);
  void report(Race::Kind kind, uintptr_t address, size_t bytes, StreamId stream = {},
              StreamId earlier = {}, Tick tick = 0);

  std::map<uintptr_t, Range> live_;
  std::map<uintptr_t, Freed> freed_;
  std::map<StreamId, std::vector<uintptr_t>> unchecked_;    // ranges the stream has yet to use
  std::map<StreamId, std::map<StreamId, Replay>> replays_;  // by captured stream
  std::vector<Race> races_;
  uint64_t count_ = 0;
};

}  // namespace tidepool::fake_cuda
