// Calls of NCCL, by PyTorch's libraries. Thread safe.
//
// Registered memory: NCCL can register memory with networks and switches, which from then on find
// it by its physical pages. PyTorch has it register all segments that an allocator shows. Pages of
// ours change their places, so that nothing of ours is registered, which only costs speed; PyTorch
// registers nothing either where its own segments are expandable.
#pragma once

#include <cstddef>
#include <string_view>

namespace tidepool::torch_glue {

// Replaces ncclCommRegister(), which PyTorch's libraries call: for memory of ours there is no
// registration, and `handle` becomes null.
int register_with_nccl(void* communicator, void* memory, size_t bytes, void** handle);
// Replaces ncclCommDeregister(): does nothing for a registration that there is not.
int deregister_from_nccl(void* communicator, void* handle);

// Replace ncclGroupStart() and ncclGroupEnd(), and count the thread's groups (nccl_groups.h).
int begin_nccl_group();
int end_nccl_group();

// The replacement for a function that asks for a collective or a part of one, which counts it
// (nccl_groups.h); nullptr: `name` is none of these. Its arguments are as NCCL has them.
void* counting_nccl_call(std::string_view name);

}  // namespace tidepool::torch_glue
