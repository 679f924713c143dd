// ForeignOperands: the operands of one call that lie in memory of others, and the copies that stand
// for them in the call's record. A copy is made before the kernel runs, and compared with its
// source after it, so that the record reads what the kernel has read; if they differ, there is no
// record.
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

  // Adds an argument, which gets a copy later. False if there cannot be one.
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

  // Whether, after the kernel has run, the copies pay for results of `result_bytes` and hold what
  // the kernel has read. Copies that do not are dropped. Requires: lock not held.
  bool verify(ForeignCopies& copies, uint64_t timing_key, size_t result_bytes);

 private:
  absl::InlinedVector<Operand, 1> operands_;
};

}  // namespace tidepool::torch_glue
