// Program: a random list of operations that a job could do, made from one seed. Operands are plain
// numbers, resolved when the operation runs (modulo the tensors that live then), so that any part
// of the list is a program, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "allocator/base/splitmix.h"
#include "remat/runtime.h"

namespace tidepool::sim {

class Random : public SplitMix {
 public:
  explicit Random(uint64_t seed) : SplitMix(seed * kGoldenStep + 0x1234567) {}
  bool one_in(uint64_t odds) { return below(odds) == 0; }
};

enum class Kind : uint8_t {
  kInput,        // a tensor whose contents come from outside
  kPure,         // 1 to 3 inputs, 1 or 2 outputs
  kDraw,         // the same, with a random draw
  kView,         // another handle on a part of a storage
  kUpdate,       // in-place, on a part or all of a storage
  kOverwrite,    // writes all of a storage and reads none of it
  kPiece,        // the same of a quarter, or of all that a handle shows
  kSideWrite,    // an output, and a write that a replay must not repeat
  kListWrite,    // updates two storages
  kUnsupported,  // results without lineage
  kDrop,         // a handle dies
  kDropLate,     // a handle dies, and the death of its storage is reported some steps later
  kEvict,        // evicts one storage
  kEvictAll,
  kRead,           // from outside: restores and compares
  kRawWrite,       // from outside: announced, then written
  kEscape,         // a raw pointer leaves; written unseen from then on
  kReplace,        // a storage gets other bytes
  kFailingUpdate,  // an in-place operator that throws when it has written half
  kEndStep,
  kRecordingOff,
  kRecordingOn,
  kFork,
  kCollective,  // somebody uses a storage for some steps, and writes it unseen in the last
  kCount
};

struct Operation {
  Kind kind = Kind::kInput;
  uint32_t a = 0, b = 0, c = 0;  // operands
  uint32_t words = 0;            // size of outputs
  uint32_t cost_ns = 1;
  uint64_t scalar = 0;
};

struct Program {
  uint64_t seed = 0;
  size_t budget_bytes = 0;
  std::string policy;
  remat::Chaos chaos = remat::Chaos::kNone;
  remat::Limits limits;
  bool allow_windows = true;
  bool allow_remap = true;
  bool allow_moves = true;
  bool evict_singly = false;
  bool check_each_step = false;
  uint64_t fail_execute_at = 0;  // the n-th replay throws; 0: none
  // A tier that holds so many bytes; 0: there is none.
  size_t tier_bytes = 0;
  double tier_ns_per_byte = 1;
  uint64_t tier_refuses_every = 0;  // each n-th store; 0: none
  std::vector<Operation> operations;

  static Program make(uint64_t seed);
  // As C++, to be kept as a regression test.
  std::string text() const;
};

}  // namespace tidepool::sim
