// MemoryUses: says what each allocated block is used for at one moment, in a user's words, for the
// report of a request that has failed: parameters, gradients, temporaries of the running operator,
// and others.
// Refers to the runtime's parts, and is valid while the device's lock is held. See docs/guide.md.
#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "allocator/arena/reclaimer.h"
#include "remat/restore/contents.h"
#include "remat/restore/restorer.h"

namespace tidepool::remat {

class MemoryUses {
 public:
  // The calling thread is the one whose request has failed.
  MemoryUses(Contents& contents, const Restorer& restorer);

  std::string of(const HeldBlock& block) const;

 private:
  std::string of_storage(const Storage& storage) const;
  std::string of_unowned(const HeldBlock& block) const;
  // Names the operator that is running, as the user of its memory.
  std::string user(const RestorationQueue::Holder& holder) const;

  const Contents& contents_;
  const Restorer& restorer_;
  const uint32_t thread_;  // the calling one, as Origin numbers it
  absl::flat_hash_set<const Storage*> gradients_;
  absl::flat_hash_map<const Storage*, const RestorationQueue::Holder*> operands_;
  absl::flat_hash_map<const void*, const Value*> kept_;  // by address
};

}  // namespace tidepool::remat
