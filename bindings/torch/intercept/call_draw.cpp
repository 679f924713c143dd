#include "bindings/torch/intercept/call_draw.h"

namespace tidepool::torch_glue {

bool CallDraw::can_be_recorded(const at::Generator* generator, c10::Device device,
                               bool has_own_kernels) const {
  if (draws_ && has_own_kernels) return false;
  if (draws_ && info_.generator_argument < 0) {
    return info_.draws_by_default_only && DefaultGeneratorScope::is_possible(device);
  }
  return !info_.draws || generator == nullptr || generator->device() == device;
}

void CallDraw::begin(Engine& engine, CallBody* body, const at::Generator* generator) {
  if (!info_.draws) [[likely]]
    return;
  if (body != nullptr && !draws_) body->forget_random();
  const bool is_captured = engine.capturing();
  if (!draws_ && !is_captured) return;
  if (body == nullptr && !is_captured) {
    // Another one's kernel may wait for other threads.
    if (info_.is_trusted()) turn_.emplace(engine.device());
    return;
  }
  c10::GeneratorImpl& source = generator == nullptr ? default_generator(engine.device())
                                                    : *generator->unsafeGetGeneratorImpl();
  if (is_captured) captured_ = &source;
  if (body == nullptr || !draws_) return;
  private_.emplace(engine.backend(), source, *body->random);
  if (info_.generator_argument < 0) default_.emplace(private_->generator());
}

void CallDraw::end() {
  default_.reset();
  private_.reset();
  turn_.reset();
}

}  // namespace tidepool::torch_glue
