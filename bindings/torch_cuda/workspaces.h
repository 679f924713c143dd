// Workspaces: memory that PyTorch asks for on behalf of cuBLAS and cuBLASLt, for each thread and
// stream at its first matrix product, and keeps until torch._C._cuda_clearCublasWorkspaces().
// PyTorch 2.15 does so only with TORCH_CUBLAS_WORKSPACE_CACHE=1; else it frees them at once.
// What it keeps is in lists of its own, which are read here. Thread safe.
#pragma once

#include <cstddef>
#include <optional>

namespace tidepool::torch_cuda {

class DeviceMemory;

// Whether PyTorch keeps the block at `address` as a workspace; nothing if its list is in use.
std::optional<bool> is_workspace(const void* address);

// Whether the code at `site` is of the library that keeps workspaces, and it keeps any. Memory of
// tensors is asked for by another one.
bool may_keep_workspaces(const void* site);

// Of the device's arena: bytes of all blocks that PyTorch keeps as workspaces.
size_t workspace_bytes(DeviceMemory& memory);

}  // namespace tidepool::torch_cuda
