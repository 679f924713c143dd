#include "bindings/torch/base/replaying.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include "bindings/torch/base/interpreter.h"

namespace tidepool::torch_glue {
namespace {
constinit thread_local bool t_replaying = false;
}  // namespace

bool is_replaying() { return t_replaying; }

// Around the recorded call there were no modes, either: each takes itself away while it passes the
// call on, and a call that some mode sees from inside is not recorded (OperatorInfo::is_trusted()).
class ReplayScope::Unseen {
 public:
  Unseen() {
    at::impl::PythonTorchFunctionTLS::set_state({});
    c10::impl::TorchDispatchModeTLS::set_state({});
  }
  ~Unseen() {
    at::impl::PythonTorchFunctionTLS::set_state(functions_);
    c10::impl::TorchDispatchModeTLS::set_state(operators_);
    c10::impl::_force_tls_local_dispatch_key_set(keys_);
    resume_tracing(tracing_);
  }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;

 private:
  const Undisturbed undisturbed_;
  void* const tracing_ = suspend_tracing();
  const c10::impl::LocalDispatchKeySet keys_ = c10::impl::tls_local_dispatch_key_set();
  const at::impl::PythonTorchFunctionTLS functions_ = at::impl::PythonTorchFunctionTLS::get_state();
  const c10::impl::TorchDispatchModeTLS operators_ = c10::impl::TorchDispatchModeTLS::get_state();
};

ReplayScope::ReplayScope(bool runs_python)
    : before_(t_replaying), unseen_(runs_python ? std::make_unique<Unseen>() : nullptr) {
  t_replaying = true;
}
ReplayScope::~ReplayScope() { t_replaying = before_; }

}  // namespace tidepool::torch_glue
