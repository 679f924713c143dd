// Redirected calls: a few functions that PyTorch's libraries call in each other look at the
// pointers of storages without an operator and without need for the bytes. Here they are answered
// for storages of ours, evicted or not.
// - Whether two storages share their bytes: asked, from 2.12 on, by an assignment to an element.
// - What the profiler notes of a tensor: the address of an evicted one is null.
// Called once, when Tidepool attaches.
#pragma once

namespace tidepool::torch_glue {

// Answers in the place of the originals in every library that is loaded by now. Those that the
// loader has made read-only, which PyTorch's own are not, keep the original.
void redirect_calls();

}  // namespace tidepool::torch_glue
