// Methods in C that call functions in Python, for classes of PyTorch's that are in C. Python's own
// functions are passed in, so that one binary serves every Python.
#include <array>
#include <utility>

#include "bindings/torch/plugin/api.h"

namespace {

constexpr size_t kMethods = 64;

tidepool_python_calls g_calls = {};
std::array<void*, kMethods> g_functions = {};  // guarded by the GIL, as the next is
size_t g_used = 0;

// A method has no data of its own, so that each one has a function of its own.
template <size_t k>
void* call_function(void* self, void* arguments, void* keywords) {
  void* const bound = g_calls.bind(g_functions[k], self);
  if (bound == nullptr) return nullptr;
  void* const result = g_calls.call(bound, arguments, keywords);
  g_calls.drop(bound);
  return result;
}

template <size_t... k>
constexpr std::array<tidepool_python_function, kMethods> make_methods(std::index_sequence<k...>) {
  return {&call_function<k>...};
}
constexpr auto kFunctions = make_methods(std::make_index_sequence<kMethods>());

}  // namespace

tidepool_python_function tidepool_method_for(const tidepool_python_calls* python, void* function) {
  if (g_used == kMethods) return nullptr;
  g_calls = *python;
  g_functions[g_used] = function;
  return kFunctions[g_used++];
}
