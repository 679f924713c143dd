// Layout kernels: the interception of kernels that sit above our key because a tensor argument, or
// the result, is sparse, nested or in mkldnn layout. Their dense operands are restored and locked
// as those of other operators. What such a tensor holds inside stays for good, and results are
// roots.
// Registered once, over PyTorch's own kernels, which ours call. Thread safe.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

namespace tidepool::torch_glue {

// Intercepts every kernel that there is now on the keys of those layouts; appends the
// registrations.
void register_layout_kernels(std::vector<c10::RegistrationHandleRAII>& handles);

// Intercepts an operator that another library has defined as a composition (`m.def(schema,
// function)`). It may read its arguments by their addresses: they are restored and held, and its
// results stay.
void register_foreign_composite(const c10::OperatorHandle& op,
                                std::vector<c10::RegistrationHandleRAII>& handles);

// Our key is one of those for which a composition would be ambiguous beside another kernel, to
// tensors of backends whose autograd key all others share: they keep what they run now. To be
// called before a kernel for our key is registered.
void keep_composition(const c10::OperatorHandle& op,
                      std::vector<c10::RegistrationHandleRAII>& handles);

}  // namespace tidepool::torch_glue
