// A region is the time in which code that runs on a thread reads tensors by their addresses: what
// operators read and make in there has to stay where it is. Generated code says when it begins and
// ends. The threads on which gloo's collectives work are in a region from their first operator on:
// between operators, which flatten tensors and spread them again, sockets read and fill the memory.
#pragma once

namespace tidepool::torch_glue {

// Whether the calling thread is in a region.
bool in_region();

// The calling thread enters or leaves one. Calls nest.
void enter_region();
void leave_region();

}  // namespace tidepool::torch_glue
