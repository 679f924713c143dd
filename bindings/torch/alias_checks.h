// Alias checks: PyTorch asks whether two storages share their bytes without calling an operator,
// and looks at both pointers for it. An assignment to an element (`x[i] = y`) asks so from 2.12 on.
// Here the question is answered for storages of ours without their bytes, evicted or not.
// Called once, when Tidepool attaches.
#pragma once

namespace tidepool::torch_glue {

// Answers in the place of c10::isSharedStorageAlias in every library that is loaded by now. Those
// that the loader has made read-only, which PyTorch's own are not, keep the original.
void answer_alias_checks();

}  // namespace tidepool::torch_glue
