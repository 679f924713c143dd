#include "bindings/torch/cpu_random.h"

#include <cstring>

#include "bindings/torch/engine.h"
#include "remat/mutants.h"

namespace tidepool::torch_glue {
namespace {

// The engine's tables, which its getters only copy, 2.5 KB at a time. Explicit instantiations may
// name private members.
template <at::mt19937 at::CPUGeneratorImpl::*Engine>
struct EngineMember {
  friend at::mt19937 at::CPUGeneratorImpl::*engine_member() { return Engine; }
};
at::mt19937 at::CPUGeneratorImpl::*engine_member();
template struct EngineMember<&at::CPUGeneratorImpl::engine_>;

template <at::mt19937_data_pod at::mt19937::*Data>
struct DataMember {
  friend at::mt19937_data_pod at::mt19937::*data_member() { return Data; }
};
at::mt19937_data_pod at::mt19937::*data_member();
template struct DataMember<&at::mt19937::data_>;

}  // namespace

void RandomState::capture(at::CPUGeneratorImpl& generator) {
  static std::shared_ptr<const at::mt19937_data_pod> last;  // guarded by the draw lock
  std::lock_guard<std::mutex> guard(generator.mutex_);
  const at::mt19937_data_pod& now = (generator.*engine_member()).*data_member();
  if (!TIDEPOOL_MUTANT(4, normal_cache)) {
    next_float_normal = generator.next_float_normal_sample();
    next_double_normal = generator.next_double_normal_sample();
  }
  left = now.left_;
  next = now.next_;
  seed = now.seed_;
  if (!last || std::memcmp(&last->state_, &now.state_, sizeof(now.state_)) != 0) {
    last = std::make_shared<const at::mt19937_data_pod>(now);
  }
  table = last;
}

void RandomState::load_into(at::CPUGeneratorImpl& generator) const {
  at::mt19937_data_pod data = *table;
  data.left_ = left;
  data.next_ = next;
  data.seed_ = seed;
  at::mt19937 engine;
  engine.set_data(data);
  std::lock_guard<std::mutex> guard(generator.mutex_);
  generator.set_engine(engine);
  generator.set_next_float_normal_sample(next_float_normal);
  generator.set_next_double_normal_sample(next_double_normal);
}

DrawLock::Mutex& DrawLock::mutex() {
  static auto* mutex = new Mutex;
  return *mutex;
}

DrawLock::DrawLock() {
  if (mutex().try_lock()) return;
  TorchBackend& backend = engine()->backend();
  void* token = backend.begin_wait();
  mutex().lock();
  backend.end_wait(token);
}

at::CPUGeneratorImpl& default_generator() {
  return *static_cast<at::CPUGeneratorImpl*>(
      at::detail::getDefaultCPUGenerator().unsafeGetGeneratorImpl());
}

const at::Generator& private_generator() {
  static auto* generator = new at::Generator(at::detail::createCPUGenerator());
  return *generator;
}

DefaultGeneratorScope::DefaultGeneratorScope(const RandomState& state)
    : generator_(default_generator()) {
  {
    std::lock_guard<std::mutex> guard(generator_.mutex_);
    engine_ = generator_.engine();
    next_float_normal_ = generator_.next_float_normal_sample();
    next_double_normal_ = generator_.next_double_normal_sample();
  }
  state.load_into(generator_);
}

DefaultGeneratorScope::~DefaultGeneratorScope() {
  if (TIDEPOOL_MUTANT(4, put_back)) return;
  std::lock_guard<std::mutex> guard(generator_.mutex_);
  generator_.set_engine(engine_);
  generator_.set_next_float_normal_sample(next_float_normal_);
  generator_.set_next_double_normal_sample(next_double_normal_);
}

}  // namespace tidepool::torch_glue
