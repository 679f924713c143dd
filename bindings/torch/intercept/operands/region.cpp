#include "bindings/torch/intercept/operands/region.h"

#include <pthread.h>

#include <string_view>

namespace tidepool::torch_glue {

namespace {

constexpr int kNotAsked = -1;
constinit thread_local int t_depth = kNotAsked;

// PyTorch names these threads as soon as they start, from 2.11 to 2.15 alike.
bool works_for_gloo() {
  char name[16] = "";  // the most that Linux keeps
  return pthread_getname_np(pthread_self(), name, sizeof name) == 0 &&
         std::string_view(name) == "pt_gloo_runloop";
}

int& depth() {
  if (t_depth == kNotAsked) [[unlikely]]
    t_depth = works_for_gloo() ? 1 : 0;
  return t_depth;
}

}  // namespace

bool in_region() { return depth() > 0; }
void enter_region() { ++depth(); }
void leave_region() { --depth(); }

}  // namespace tidepool::torch_glue
