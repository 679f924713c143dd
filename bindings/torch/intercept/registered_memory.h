// Registered memory: NCCL can register memory with networks and switches, which from then on find
// it by its physical pages. PyTorch has it register all segments that an allocator shows. Pages of
// ours change their places, so that nothing of ours is registered, which only costs speed; PyTorch
// registers nothing either where its own segments are expandable. Thread safe.
#pragma once

#include <cstddef>

namespace tidepool::torch_glue {

// Replaces ncclCommRegister(), which PyTorch's libraries call: for memory of ours there is no
// registration, and `handle` becomes null.
int register_with_nccl(void* communicator, void* memory, size_t bytes, void** handle);
// Replaces ncclCommDeregister(): does nothing for a registration that there is not.
int deregister_from_nccl(void* communicator, void* handle);

}  // namespace tidepool::torch_glue
