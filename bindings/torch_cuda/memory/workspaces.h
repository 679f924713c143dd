// Workspaces: memory that PyTorch asks for on behalf of cuBLAS and cuBLASLt, at the first matrix
// product of each thread on each stream, and keeps until torch._C._cuda_clearCublasWorkspaces().
// PyTorch 2.15 keeps workspaces only with TORCH_CUBLAS_WORKSPACE_CACHE=1, and else frees them at
// once. PyTorch lists the workspaces that it keeps, and these functions read its lists. Thread
// safe.
#pragma once

#include <cstddef>
#include <optional>

namespace tidepool::torch_cuda {

class DeviceMemory;

// Whether PyTorch keeps the block at `address` as a workspace; nothing if a list is in use.
std::optional<bool> is_workspace(const void* address);

// Whether the code at `site` belongs to the library that keeps workspaces, and that keeps any.
// Another library asks for the memory of tensors.
bool may_keep_workspaces(const void* site);

// The bytes of all blocks of the device's arena that PyTorch keeps as workspaces.
size_t workspace_bytes(DeviceMemory& memory);

}  // namespace tidepool::torch_cuda
