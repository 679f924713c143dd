#include "bindings/torch/intercept/redirected_calls.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/RefcountedDeleter.h>
#include <c10/core/Storage.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "bindings/torch/base/devices.h"
#include "bindings/torch/intercept/extension_addresses.h"
#include "bindings/torch/intercept/future_storages.h"
#include "bindings/torch/intercept/gradient_streams.h"
#include "bindings/torch/intercept/nccl_calls.h"
#include "bindings/torch/intercept/raw_readers.h"
#include "bindings/torch/state/default_generator.h"
#include "bindings/torch/storage/storage_access.h"
#include "bindings/torch/storage/tripwire.h"

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

// torch::Library::_impl(), by which a library in C++ registers kernels.
constexpr std::string_view kRegistersKernel = "_ZNR5torch7Library5_impl";

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
    {kPrintTensor, reinterpret_cast<void*>(&print_tensor)},
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

// What stands in for a function of PyTorch's or NCCL's where a library calls it; nullptr: nothing
// does. A program without Python has its own way to notice who asks for addresses.
void* replacement_of(const char* name, bool caller_is_of_pytorch) {
  for (const Redirection& each : kRedirections) {
    if (each.device == (host_is_foreign() ? For::kCpu : For::kCuda)) continue;
    if (std::strcmp(name, each.name) == 0) return each.target;
  }
  if (void* const counting = host_is_foreign() ? counting_nccl_call(name) : nullptr) {
    return counting;
  }
  if (caller_is_of_pytorch || tripwire::g_addresses_are_kept) return nullptr;
  return replacement_of_address_getter(name);
}

std::filesystem::path folder_of(const char* library) {
  std::error_code error;  // what cannot be found lies in no folder of PyTorch's
  return std::filesystem::canonical(library, error).parent_path();
}

// Whether a library is one of PyTorch's, or of ours. Others are named like PyTorch's, too, and
// PyTorch may lie in a folder with others.
bool is_of_pytorch(const char* path) {
  static const std::filesystem::path pytorchs = [] {
    Dl_info found{};
    dladdr(reinterpret_cast<void*>(&c10::Dispatcher::realSingleton), &found);
    return folder_of(found.dli_fname);
  }();
  const std::string name = std::filesystem::path(path).filename();
  if (name.starts_with("libtidepool")) return true;
  return (name.starts_with("libtorch") || name.starts_with("libc10")) &&
         folder_of(path) == pytorchs;
}

// Whether a library has not been seen yet, which is noted.
bool is_new(const dl_phdr_info& library) {
  static auto* const seen = new absl::flat_hash_set<std::pair<uintptr_t, std::string>>;
  return seen->emplace(library.dlpi_addr, library.dlpi_name).second;
}

// The functions that a library calls in others, as its dynamic section lists them.
struct Calls {
  std::span<const ElfW(Rela)> by_stub;  // the linker has made stubs for these
  std::span<const ElfW(Rela)> others;   // among much else; compiled with -fno-plt, all are here
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
};

Calls calls_of(const dl_phdr_info& library, const ElfW(Phdr) & dynamic) {
  Calls calls;
  const ElfW(Rela)* by_stub = nullptr;
  const ElfW(Rela)* others = nullptr;
  size_t stub_bytes = 0, other_bytes = 0;
  const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(library.dlpi_addr + dynamic.p_vaddr);
  for (; entry->d_tag != DT_NULL; ++entry) {
    const auto address = entry->d_un.d_ptr;
    if (entry->d_tag == DT_JMPREL) by_stub = reinterpret_cast<const ElfW(Rela)*>(address);
    if (entry->d_tag == DT_PLTRELSZ) stub_bytes = entry->d_un.d_val;
    if (entry->d_tag == DT_RELA) others = reinterpret_cast<const ElfW(Rela)*>(address);
    if (entry->d_tag == DT_RELASZ) other_bytes = entry->d_un.d_val;
    if (entry->d_tag == DT_SYMTAB) calls.symbols = reinterpret_cast<const ElfW(Sym)*>(address);
    if (entry->d_tag == DT_STRTAB) calls.names = reinterpret_cast<const char*>(address);
  }
  if (calls.symbols == nullptr || calls.names == nullptr) return calls;
  if (by_stub != nullptr) calls.by_stub = {by_stub, stub_bytes / sizeof(ElfW(Rela))};
  if (others != nullptr) calls.others = {others, other_bytes / sizeof(ElfW(Rela))};
  return calls;
}

// The start of the page that an address lies in.
uintptr_t page_of(uintptr_t address) {
  return address & ~(static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)) - 1);
}

// Puts a function's address into a slot. `is_fixed`: the loader has made its page read-only.
void fill_slot(uintptr_t place, void* target, bool is_fixed) {
  const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* const page = reinterpret_cast<void*>(page_of(place));
  if (is_fixed && mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) {
    std::fprintf(stderr, "tidepool: calls of a library cannot be redirected: %s\n",
                 std::strerror(errno));
    return;
  }
  __atomic_store_n(reinterpret_cast<void**>(place), target, __ATOMIC_RELEASE);
  if (is_fixed) mprotect(page, page_bytes, PROT_READ);
}

// What was found in libraries.
struct Found {
  uintptr_t plugin = 0;  // which calls the originals
  bool registers_kernels = false;
};

int redirect(dl_phdr_info* library, size_t, void* result) {
  Found& found = *static_cast<Found*>(result);
  if (library->dlpi_addr == found.plugin) return 0;
  if (!is_new(*library)) return 0;
  const ElfW(Phdr)* dynamic = nullptr;
  uintptr_t fixed_begin = 0, fixed_end = 0;  // read-only once the loader is done
  for (int k = 0; k < library->dlpi_phnum; ++k) {
    const ElfW(Phdr) & header = library->dlpi_phdr[k];
    if (header.p_type == PT_DYNAMIC) dynamic = &header;
    if (header.p_type != PT_GNU_RELRO) continue;
    fixed_begin = page_of(library->dlpi_addr + header.p_vaddr);
    fixed_end = page_of(library->dlpi_addr + header.p_vaddr + header.p_memsz);  // whole pages only
  }
  if (dynamic == nullptr) return 0;
  const Calls calls = calls_of(*library, *dynamic);
  const bool of_pytorch = is_of_pytorch(library->dlpi_name);
  for (const auto& slots : {calls.by_stub, calls.others}) {
    for (const ElfW(Rela) & slot : slots) {
      const auto type = ELF64_R_TYPE(slot.r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
      const ElfW(Sym) & symbol = calls.symbols[ELF64_R_SYM(slot.r_info)];
      const char* const name = calls.names + symbol.st_name;
      if (!of_pytorch && std::string_view(name).starts_with(kRegistersKernel)) {
        found.registers_kernels = true;
      }
      void* const target = replacement_of(name, of_pytorch);
      if (target == nullptr) continue;
      const uintptr_t place = library->dlpi_addr + slot.r_offset;
      fill_slot(place, target, place >= fixed_begin && place < fixed_end);
    }
  }
  return 0;
}

}  // namespace

bool redirect_calls() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  Dl_info plugin{};
  dladdr(reinterpret_cast<void*>(&share_bytes), &plugin);
  Found found{.plugin = reinterpret_cast<uintptr_t>(plugin.dli_fbase)};
  dl_iterate_phdr(&redirect, &found);
  return found.registers_kernels;
}

}  // namespace tidepool::torch_glue
