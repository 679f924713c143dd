#include "bindings/torch/intercept/nccl_calls.h"

#include <dlfcn.h>

#include <algorithm>

#include "bindings/torch/base/nccl_groups.h"
#include "bindings/torch/engine/engine.h"

namespace tidepool::torch_glue {
namespace {

constexpr int kSuccess = 0;      // ncclSuccess
constexpr int kSystemError = 2;  // ncclSystemError

template <class Function>
Function nccl_function(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) {
    void* const library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
    if (library != nullptr) found = dlsym(library, name);
  }
  return reinterpret_cast<Function>(found);
}

bool is_memory_of_ours(const void* memory) {
  bool found = false;
  for_each_engine([&](Engine& engine) { found = found || engine.allocator().contains(memory); });
  return found;
}

}  // namespace

int register_with_nccl(void* communicator, void* memory, size_t bytes, void** handle) {
  using Register = int (*)(void*, void*, size_t, void**);
  static const auto original = nccl_function<Register>("ncclCommRegister");
  if (is_memory_of_ours(memory)) {
    *handle = nullptr;
    return kSuccess;
  }
  return original != nullptr ? original(communicator, memory, bytes, handle) : kSystemError;
}

int deregister_from_nccl(void* communicator, void* handle) {
  using Deregister = int (*)(void*, void*);
  static const auto original = nccl_function<Deregister>("ncclCommDeregister");
  if (handle == nullptr) return kSuccess;
  return original != nullptr ? original(communicator, handle) : kSystemError;
}

int begin_nccl_group() {
  static const auto original = nccl_function<int (*)()>("ncclGroupStart");
  ++nccl_groups::t_open;
  return original != nullptr ? original() : kSystemError;
}

int end_nccl_group() {
  static const auto original = nccl_function<int (*)()>("ncclGroupEnd");
  const int result = original != nullptr ? original() : kSystemError;
  if (nccl_groups::t_open > 0) --nccl_groups::t_open;
  return result;
}

namespace {

// A function's name, as an argument of a template.
template <size_t Length>
struct Name {
  char text[Length];
  consteval Name(const char (&given)[Length]) { std::copy_n(given, Length, text); }
};

template <Name name, class... Arguments>
struct Counted {
  static constexpr std::string_view kName = name.text;
  static int call(Arguments... arguments) {
    static const auto original = nccl_function<int (*)(Arguments...)>(name.text);
    ++nccl_groups::t_calls;
    return original != nullptr ? original(arguments...) : kSystemError;
  }
};

template <class... Each>
void* replacement_among(std::string_view name) {
  void* found = nullptr;
  static_cast<void>(
      ((name == Each::kName && (found = reinterpret_cast<void*>(&Each::call)) != nullptr) || ...));
  return found;
}

using Source = const void*;
using Target = void*;
using Communicator = void*;
using Stream = void*;

}  // namespace

void* counting_nccl_call(std::string_view name) {
  // The numbers are types of elements, operations and ranks.
  return replacement_among<
      Counted<"ncclAllReduce", Source, Target, size_t, int, int, Communicator, Stream>,
      Counted<"ncclReduce", Source, Target, size_t, int, int, int, Communicator, Stream>,
      Counted<"ncclBroadcast", Source, Target, size_t, int, int, Communicator, Stream>,
      Counted<"ncclBcast", Target, size_t, int, int, Communicator, Stream>,
      Counted<"ncclAllGather", Source, Target, size_t, int, Communicator, Stream>,
      Counted<"ncclReduceScatter", Source, Target, size_t, int, int, Communicator, Stream>,
      Counted<"ncclAlltoAll", Source, Target, size_t, int, Communicator, Stream>,
      Counted<"ncclGather", Source, Target, size_t, int, int, Communicator, Stream>,
      Counted<"ncclScatter", Source, Target, size_t, int, int, Communicator, Stream>,
      Counted<"ncclSend", Source, size_t, int, int, Communicator, Stream>,
      Counted<"ncclRecv", Target, size_t, int, int, Communicator, Stream>>(name);
}

}  // namespace tidepool::torch_glue
