#include "bindings/torch/intercept/redirected_calls.h"

#include <ATen/core/Tensor.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/RefcountedDeleter.h>
#include <c10/core/Storage.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

#include "bindings/torch/base/devices.h"
#include "bindings/torch/intercept/future_storages.h"
#include "bindings/torch/intercept/gradient_streams.h"
#include "bindings/torch/intercept/nccl_calls.h"
#include "bindings/torch/state/default_generator.h"
#include "bindings/torch/storage/storage_access.h"

namespace tidepool::torch_glue {
namespace {

bool is_ours(const c10::Storage& storage) {
  return torch_glue::is_ours(storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks());
}

// Whether two storages share their bytes. Bytes of ours belong to one storage only; storages that
// share bytes have a deleter of PyTorch's.
bool share_bytes(const c10::Storage& left, const c10::Storage& right) {
  return !is_ours(left) && !is_ours(right) && c10::isSharedStorageAlias(left, right);
}

// The members of torch::profiler::impl::RawTensorMetadataBase, whose header does not compile with a
// wheel.
struct Metadata {
  const void* data;
  c10::ScalarType dtype;
  c10::Layout layout;
  uint32_t size_dim;
};

// Replaces the constructor.
void note_tensor(Metadata* metadata, const at::Tensor& tensor) {
  const c10::StorageImpl* storage = storage_of(tensor.unsafeGetTensorImpl());
  const void* address = nullptr;
  if (storage != nullptr) {
    address = const_cast<c10::StorageImpl*>(storage)->_mutable_data_ptr_no_checks().get();
  }
  *metadata = {address, tensor.scalar_type(), tensor.layout(), static_cast<uint32_t>(tensor.dim())};
}

// Replaces c10::GetDefaultCPUAllocator(), by which Python makes storages, and so do
// copy.deepcopy(), pickle and files of an old format: their memory counts, like that of all other
// tensors.
c10::Allocator* allocator_of_storages() { return c10::GetCPUAllocator(); }

enum class For { kAll, kCpu, kCuda };  // whose plugin's
struct Redirection {
  const char* name;
  void* target;
  For device = For::kAll;
};
const Redirection kRedirections[] = {
    {"_ZN3c1020isSharedStorageAliasERKNS_7StorageES2_", reinterpret_cast<void*>(&share_bytes)},
    {"_ZN5torch8profiler4impl21RawTensorMetadataBaseC2ERKN2at6TensorE",
     reinterpret_cast<void*>(&note_tensor)},
    {"_ZN3c1022GetDefaultCPUAllocatorEv", reinterpret_cast<void*>(&allocator_of_storages),
     For::kCpu},
    {kDefaultCudaGenerator, reinterpret_cast<void*>(&default_cuda_generator), For::kCuda},
    {kAddGradient, reinterpret_cast<void*>(&add_gradient), For::kCuda},
    {kFindFutureStorages, reinterpret_cast<void*>(&find_future_storages), For::kCuda},
    {"ncclCommRegister", reinterpret_cast<void*>(&register_with_nccl), For::kCuda},
    {"ncclCommDeregister", reinterpret_cast<void*>(&deregister_from_nccl), For::kCuda},
    {"ncclGroupStart", reinterpret_cast<void*>(&begin_nccl_group), For::kCuda},
    {"ncclGroupEnd", reinterpret_cast<void*>(&end_nccl_group), For::kCuda},
};

// The functions that a library calls in others, as its dynamic section lists them.
struct Calls {
  const ElfW(Rela) * slots = nullptr;
  size_t slot_bytes = 0;
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
};

Calls calls_of(const dl_phdr_info& library, const ElfW(Phdr) & dynamic) {
  Calls calls;
  const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(library.dlpi_addr + dynamic.p_vaddr);
  for (; entry->d_tag != DT_NULL; ++entry) {
    const auto address = entry->d_un.d_ptr;
    if (entry->d_tag == DT_JMPREL) calls.slots = reinterpret_cast<const ElfW(Rela)*>(address);
    if (entry->d_tag == DT_PLTRELSZ) calls.slot_bytes = entry->d_un.d_val;
    if (entry->d_tag == DT_SYMTAB) calls.symbols = reinterpret_cast<const ElfW(Sym)*>(address);
    if (entry->d_tag == DT_STRTAB) calls.names = reinterpret_cast<const char*>(address);
  }
  return calls;
}

int redirect(dl_phdr_info* library, size_t, void* own) {
  if (library->dlpi_addr == reinterpret_cast<uintptr_t>(own)) return 0;  // it calls the original
  const ElfW(Phdr)* dynamic = nullptr;
  uintptr_t fixed_begin = 0, fixed_end = 0;  // read-only once the loader is done
  for (int k = 0; k < library->dlpi_phnum; ++k) {
    const ElfW(Phdr) & header = library->dlpi_phdr[k];
    if (header.p_type == PT_DYNAMIC) dynamic = &header;
    if (header.p_type != PT_GNU_RELRO) continue;
    fixed_begin = library->dlpi_addr + header.p_vaddr;
    fixed_end = fixed_begin + header.p_memsz;
  }
  if (dynamic == nullptr) return 0;
  const Calls calls = calls_of(*library, *dynamic);
  if (calls.slots == nullptr || calls.symbols == nullptr || calls.names == nullptr) return 0;
  for (size_t k = 0; k < calls.slot_bytes / sizeof(ElfW(Rela)); ++k) {
    const ElfW(Rela) & slot = calls.slots[k];
    if (ELF64_R_TYPE(slot.r_info) != R_X86_64_JUMP_SLOT) continue;
    const ElfW(Sym) & symbol = calls.symbols[ELF64_R_SYM(slot.r_info)];
    const uintptr_t place = library->dlpi_addr + slot.r_offset;
    if (place >= fixed_begin && place < fixed_end) continue;
    for (const Redirection& each : kRedirections) {
      if (each.device == (host_is_foreign() ? For::kCpu : For::kCuda)) continue;
      if (std::strcmp(calls.names + symbol.st_name, each.name) != 0) continue;
      __atomic_store_n(reinterpret_cast<void**>(place), each.target, __ATOMIC_RELEASE);
    }
    if (!host_is_foreign()) continue;
    if (void* const counting = counting_nccl_call(calls.names + symbol.st_name)) {
      __atomic_store_n(reinterpret_cast<void**>(place), counting, __ATOMIC_RELEASE);
    }
  }
  return 0;
}

}  // namespace

void redirect_calls() {
  Dl_info plugin{};
  dladdr(reinterpret_cast<void*>(&share_bytes), &plugin);
  dl_iterate_phdr(&redirect, plugin.dli_fbase);
}

}  // namespace tidepool::torch_glue
