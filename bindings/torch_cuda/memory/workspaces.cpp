#include "bindings/torch_cuda/memory/workspaces.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/util/env.h>
#include <dlfcn.h>

#include <array>
#include <shared_mutex>
#include <type_traits>
#include <utility>

#include "bindings/torch_cuda/memory/device_memory.h"

namespace tidepool::torch_cuda {
namespace {

using List = std::remove_reference_t<decltype(at::cuda::cublas_handle_stream_to_workspace())>;

// The function of this name in a library that this plugin does not link; null if that is not
// loaded.
void* function_named(const char* name) {
  void* library = dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_LAZY);
  return library != nullptr ? dlsym(library, name) : nullptr;
}

const void* cublas_function() {
  static const void* const function =
      function_named("_ZN2at4cuda33cublas_handle_stream_to_workspaceEv");
  return function;
}

// Whether PyTorch keeps workspaces. PyTorch is not asked, because it reads the variable when it is
// first asked, and never again.
bool keeps_workspaces() {
  static const bool may_be_off =
      function_named("_ZN2at4cuda33isCUDABlasWorkspaceCachingEnabledEv") != nullptr;
  return !may_be_off || c10::utils::check_env("TORCH_CUBLAS_WORKSPACE_CACHE") == true;
}

// PyTorch's own lists of workspaces.
const std::array<List*, 2>& lists() {
  const auto list_of = [](const void* function) {
    const auto list = reinterpret_cast<List& (*)()>(const_cast<void*>(function));
    return list != nullptr ? &list() : nullptr;
  };
  static const std::array<List*, 2> both = {
      list_of(cublas_function()),
      list_of(function_named("_ZN2at4cuda35cublaslt_handle_stream_to_workspaceEv"))};
  return both;
}

// The start of the library that the address lies in, or null.
const void* library_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

const void* address_of(const at::DataPtr& workspace) { return workspace.get(); }
const void* address_of(const std::pair<at::DataPtr, size_t>& workspace) {
  return workspace.first.get();
}

}  // namespace

std::optional<bool> is_workspace(const void* address) {
  for (List* list : lists()) {
    if (list == nullptr) continue;
    // This does not wait: this thread itself may be changing the list.
    std::shared_lock<std::shared_mutex> lock(list->mutex, std::try_to_lock);
    if (!lock.owns_lock()) return std::nullopt;
    for (const auto& [key, workspace] : list->map) {
      if (address_of(workspace) == address) return true;
    }
  }
  return false;
}

bool may_keep_workspaces(const void* site) {
  lists();  // finds the lists here, where no lock of ours is held
  const void* function = cublas_function();
  return function != nullptr && library_of(site) == library_of(function) && keeps_workspaces();
}

size_t workspace_bytes(DeviceMemory& memory) {
  size_t bytes = 0;
  for (List* list : lists()) {
    if (list == nullptr) continue;
    std::shared_lock<std::shared_mutex> lock(list->mutex);  // keeps its blocks allocated
    for (const auto& [key, workspace] : list->map) {
      const void* address = address_of(workspace);
      if (memory.contains(address)) bytes += memory.block_bytes(address);
    }
  }
  return bytes;
}

}  // namespace tidepool::torch_cuda
