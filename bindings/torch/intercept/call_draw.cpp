#include "bindings/torch/intercept/call_draw.h"

namespace tidepool::torch_glue {

bool CallDraw::can_be_recorded(const at::Generator* generator, c10::Device device,
                               bool has_own_kernels) const {
  const bool is_untold = info_.generator_argument < 0 && !info_.draws_by_default_only;
  if (draws_ && (is_untold || has_own_kernels)) return false;
  return !info_.draws || generator == nullptr || generator->device() == device;
}

void CallDraw::begin(Engine& engine, CallBody* body, const at::Generator* generator) {
  if (!info_.draws) [[likely]]
    return;
  if (body != nullptr && !draws_) body->forget_random();
  const bool is_captured = engine.capturing();
  if ((body == nullptr || !draws_) && !is_captured) return;
  c10::GeneratorImpl& source = generator == nullptr ? default_generator(engine.device())
                                                    : *generator->unsafeGetGeneratorImpl();
  if (is_captured) captured_ = &source;
  if (body == nullptr || !draws_) return;
  if (info_.generator_argument >= 0) {
    private_.emplace(engine.backend(), source, *body->random);
    return;
  }
  body->random->read_counter(source);
  drawn_ = body->random;
}

bool CallDraw::end(Engine& engine) {
  private_.reset();
  if (drawn_ == nullptr) return true;
  RandomState now;
  now.read_counter(default_generator(engine.device()));
  // Otherwise another thread has seeded the generator meanwhile.
  return now.seed == drawn_->seed && now.offset >= drawn_->offset;
}

}  // namespace tidepool::torch_glue
