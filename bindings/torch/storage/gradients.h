// Gradients: which tracked storage holds the gradient of a parameter, for reports. Known by the
// node that accumulates it (weakly held, so that nothing lives longer for it), while a graph that
// leads to the parameter is alive; so gradients are marked at the end of each backward pass.
// All functions need the device's lock, and that no thread but the caller's works on gradients.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include "remat/lineage/lineage.h"

namespace tidepool::torch_glue {

// A tensor that somebody else keeps alive, without a reference of its own: to count one takes
// Python's lock where Python knows the tensor, and that is never waited for with the device's held.
class BorrowedTensor {
 public:
  explicit BorrowedTensor(c10::TensorImpl* impl)
      : tensor_(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim(impl)) {}
  ~BorrowedTensor() { tensor_.unsafeReleaseTensorImpl(); }
  BorrowedTensor(const BorrowedTensor&) = delete;
  BorrowedTensor& operator=(const BorrowedTensor&) = delete;

  const at::Tensor& operator*() const { return tensor_; }

 private:
  at::Tensor tensor_;
};

// So many threads may run a job's operators with only one of them working on gradients: the one
// that the job runs on, and, where the device is not the CPU, autograd's own for the device.
size_t threads_of_one_job();

// The leaf behind `tensor`, which is in `storage`, is a parameter that an operator is using. Cheap
// where its node is known.
void note_parameter(remat::Storage& storage, c10::TensorImpl* tensor);
void forget_parameter(remat::Storage& storage);

// The storage of the parameter's gradient; nullptr if there is none, or it is not tracked.
remat::Storage* find_gradient(const remat::Storage& parameter);

}  // namespace tidepool::torch_glue
