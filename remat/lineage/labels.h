// Labels: the answers to three questions about a job's tensors: how an operator uses an argument
// (Access), what a storage is to the job (Role), and why contents have no lineage (RootReason).
// They have a header of their own, so that traces and reports need not know what lineage is made
// of.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tidepool::remat {

// How an operator uses one tensor argument.
enum class Access : uint8_t {
  kRead,
  kUpdate,     // reads and writes it, or writes only a part: the new version needs the old bytes
  kOverwrite,  // writes all of its bytes and reads none of them
  kSideWrite,  // writes it as a side effect that a replay must not repeat; the result is a root
};

// Why a value has no lineage. The names in kRootReasonNames are the keys of `root_bytes`.
enum class RootReason : uint8_t {
  kNone,           // not a root
  kUntracked,      // its contents were there when it was first seen (inputs, fresh `empty`)
  kUnsupported,    // result of an operator whose effect or arguments we cannot replay
  kListWrite,      // written by an operator that writes several tensors
  kPartialWrite,   // partly overwritten while its other bytes had no lineage
  kUnstableInput,  // result of an operator that read foreign or escaped memory
  kLayout,         // sparse, nested, mkldnn
  kDepthLimit,
  kVersionLimit,
  kAgeLimit,
  kRecordLimit,
  kBookkeepingLimit,
  kLostInput,  // an input's contents went away before they could be recorded
  kLostRoot,   // a root that it depended on was written, freed or escaped
  kEscaped,    // a raw pointer to it left our sight
  kRawWrite,   // may have been written once through a raw pointer
  kRecordingOff,
  kVaries,       // result of an operator that need not give the same bits again
  kSettled,      // made before a switch or a kernel that it depended on was changed
  kForeignCopy,  // our copy of foreign memory that operators have read
  kCompiled,     // made by a compiled graph that cannot be run again
  kCount
};
extern const char* const kRootReasonNames[static_cast<size_t>(RootReason::kCount)];

// What a storage is to the job, as far as that can be seen. Reports show it, and it decides what
// may be moved. Gradients are recognized late, so that only reports may depend on kGradient.
enum class Role : uint8_t { kOther, kParameter, kOptimizerState, kInput, kGradient, kCount };

}  // namespace tidepool::remat
