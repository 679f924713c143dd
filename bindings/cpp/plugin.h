// The plugin for the PyTorch in this process: finds it beside this library, and has its functions,
// whose contracts are in bindings/torch/plugin/api.h. It is never unloaded. Thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace tidepool::cpp {

// There is no plugin for this PyTorch, or it refuses.
struct AttachError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Plugin {
  // Throws: AttachError. `device`: cpu or cuda.
  explicit Plugin(const std::string& device);

  int (*attach)(const char* settings, char* error, size_t error_bytes);
  size_t (*statistics)(char* out, size_t capacity);
  int (*thread)(int on);
  int (*thread_is_on)();
  int (*hold)(void* storage, void** held, char* error, size_t error_bytes);
  void (*let_go)(void* storage, void* held);
  void (*optimizer_scope)(int entering);
  void (*rescan_operators)();
  int (*begin_keeping)(void** kept, char* error, size_t error_bytes);
  void (*end_keeping)(void* kept);
  int (*set_limit)(uint64_t bytes, char* error, size_t error_bytes);
  void (*enter_reader)();
  void (*leave_reader)();
  void (*begin_region)(void** begun);
  void (*end_region)(void* begun);
  void (*enter_switch)();
  void (*leave_switch)();
  void (*take_address)(void* tensor, int may_write);
  void (*finish)();
};

// The PyTorch that the program is linked with, such as "2.15"; "" if there is none.
std::string torch_version();
// Whether it is one with CUDA.
bool torch_has_cuda();

}  // namespace tidepool::cpp
