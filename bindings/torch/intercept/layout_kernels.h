// Layout kernels: interception of kernels that sit above our key because a tensor argument, or the
// result, is sparse, nested or in mkldnn layout. Their dense operands are restored and locked like
// anyone's; what such a tensor holds inside stays for good, and results are roots.
// Registered once, over PyTorch's own kernels, which ours call. Thread safe.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

namespace tidepool::torch_glue {

// Covers every kernel that there is now on the keys of those layouts; appends the handles.
void register_layout_kernels(std::vector<c10::RegistrationHandleRAII>& handles);

// The same for a composition of another library's (`m.def(schema, function)`), which may read its
// arguments by their addresses: they are restored and held, and its results stay.
void register_foreign_composite(const c10::OperatorHandle& op,
                                std::vector<c10::RegistrationHandleRAII>& handles);

}  // namespace tidepool::torch_glue
