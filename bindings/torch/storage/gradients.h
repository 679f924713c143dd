// Gradients: which tracked storage holds the gradient of a parameter, for reports. It is known by
// the node that accumulates the gradient, which is held weakly, while a graph that leads to the
// parameter is alive. So gradients are marked at the end of each backward pass.
// All functions require the device's lock, and that only the calling thread works on gradients.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include "remat/lineage/lineage.h"

namespace tidepool::torch_glue {

// A tensor that somebody else keeps alive, without a reference of its own. Counting a reference
// takes Python's lock if Python knows the tensor, and nobody may wait for that while holding the
// device's lock.
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

// How many threads may run a job's operators while only one of them works on gradients: the thread
// that the job runs on and, unless the device is the CPU, autograd's own thread for the device.
size_t threads_of_one_job();

// Notes that an operator uses a parameter: the leaf behind `tensor`, which is in `storage`. Cheap
// if the parameter's node is known.
void note_parameter(remat::Storage& storage, c10::TensorImpl* tensor);
void forget_parameter(remat::Storage& storage);

// The storage of the parameter's gradient; nullptr if there is none, or if it is not tracked.
remat::Storage* find_gradient(const remat::Storage& parameter);

}  // namespace tidepool::torch_glue
