#include "bindings/torch/base/replaying.h"

namespace tidepool::torch_glue {
namespace {
constinit thread_local bool t_replaying = false;
}  // namespace

bool is_replaying() { return t_replaying; }

ReplayScope::ReplayScope() : before_(t_replaying) { t_replaying = true; }
ReplayScope::~ReplayScope() { t_replaying = before_; }

}  // namespace tidepool::torch_glue
