// ForeignOperands: what one operator call reads in memory of others, and the copies that stand for
// it in the call's record. A copy is made before the kernel runs and compared with its source again
// after it: what the kernel has read is what the record reads, or there is no record.
// Owns the locks of the copies until the call has them. Lives in an InterceptedCall; one thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "bindings/torch/engine/foreign_copies.h"
#include "remat/locked_storage.h"

namespace tidepool::torch_glue {

class ForeignOperands {
 public:
  struct Operand {
    size_t place = 0;  // among the call's tensor arguments
    ForeignCopies::Region region;
    remat::Storage* copy = nullptr;
    remat::HeldStorage held{};  // the copy, until the call has locked it
    bool fresh = false;
    int64_t offset = 0;  // of the tensor's first element in the copy, in elements
  };

  // An argument that has no copy yet. False if there cannot be one.
  bool see(size_t place, const c10::TensorImpl& tensor);
  bool empty() const { return operands_.empty(); }
  size_t bytes() const;
  // The operand at `place`; nullptr if there is none.
  const Operand* find(size_t place) const;

  // Finds or makes the copies, and locks them. False: memory does not suffice for all. Requires:
  // lock not held.
  bool obtain(ForeignCopies& copies);
  // Ends the locks that obtain() took: the call has locked the copies itself, or reads none of
  // them. Requires: lock held.
  void unlock();

  // The kernel has run, and its results take `result_bytes`: whether the copies pay and hold what
  // it has read. Otherwise they are dropped. Requires: lock not held.
  bool verify(ForeignCopies& copies, uint64_t timing_key, size_t result_bytes);

 private:
  absl::InlinedVector<Operand, 1> operands_;
};

}  // namespace tidepool::torch_glue
