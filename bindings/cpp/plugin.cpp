#include "bindings/cpp/plugin.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <set>

namespace tidepool::cpp {
namespace {

template <class Function>
void find(void* library, const char* name, Function& function) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) throw AttachError(dlerror());
  std::memcpy(&function, &symbol, sizeof symbol);
}

std::filesystem::path own_folder() {
  Dl_info here{};
  dladdr(reinterpret_cast<void*>(&torch_version), &here);
  return std::filesystem::canonical(here.dli_fname).parent_path();
}

std::string available(const std::filesystem::path& folder, const std::string& front) {
  std::set<std::string> found;
  for (const auto& each : std::filesystem::directory_iterator(folder)) {
    std::string name = each.path().filename();
    if (!name.starts_with(front) || !name.ends_with(".so")) continue;
    name = name.substr(front.size(), name.size() - front.size() - 3);
    const size_t split = name.find('_');
    if (name.find_first_not_of("0123456789_") == std::string::npos && split != name.npos) {
      found.insert(name.replace(split, 1, "."));
    }
  }
  std::string text;
  for (const std::string& each : found) text += (text.empty() ? "" : ", ") + each;
  return text.empty() ? "none" : text;
}

void* open(const std::string& device) {
  const std::string version = torch_version();
  if (version.empty()) throw AttachError("this program is not linked with LibTorch");
  if (device == "cuda" && !torch_has_cuda()) {
    throw AttachError("LibTorch " + version + " is without CUDA here: expected device cpu");
  }
  const std::filesystem::path folder = own_folder();
  const std::string front = device == "cuda" ? "libtidepool_torch_cuda_" : "libtidepool_torch_";
  std::string ending = version;
  ending.replace(ending.find('.'), 1, "_");
  const std::string path = folder / (front + ending + ".so");
  if (!std::filesystem::exists(path)) {
    throw AttachError("no plugin for PyTorch " + version +
                      " (this installation has plugins for: " + available(folder, front) + ")");
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) throw AttachError(std::string("cannot load ") + dlerror());
  return library;
}

}  // namespace

Plugin::Plugin(const std::string& device) {
  void* library = open(device);
  find(library, "tidepool_attach", attach);
  find(library, "tidepool_statistics", statistics);
  find(library, "tidepool_thread", thread);
  find(library, "tidepool_thread_is_on", thread_is_on);
  find(library, "tidepool_hold", hold);
  find(library, "tidepool_let_go", let_go);
  find(library, "tidepool_optimizer_scope", optimizer_scope);
  find(library, "tidepool_rescan_operators", rescan_operators);
  find(library, "tidepool_begin_keeping", begin_keeping);
  find(library, "tidepool_end_keeping", end_keeping);
  find(library, "tidepool_set_limit", set_limit);
  find(library, "tidepool_enter_reader", enter_reader);
  find(library, "tidepool_leave_reader", leave_reader);
  find(library, "tidepool_begin_region", begin_region);
  find(library, "tidepool_end_region", end_region);
  find(library, "tidepool_enter_switch", enter_switch);
  find(library, "tidepool_leave_switch", leave_switch);
  find(library, "tidepool_take_address", take_address);
  find(library, "tidepool_finish", finish);
}

std::string torch_version() {
  void* symbol = dlsym(RTLD_DEFAULT, "aoti_torch_abi_version");
  if (symbol == nullptr) return "";
  uint64_t (*version)();
  std::memcpy(&version, &symbol, sizeof symbol);
  const uint64_t packed = version();
  return std::to_string(packed >> 56) + "." + std::to_string(packed >> 48 & 0xff);
}

bool torch_has_cuda() {
  void* library = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

}  // namespace tidepool::cpp
