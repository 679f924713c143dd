#include "bindings/torch/random_state.h"

#include <ATen/Context.h>

#include <cstring>
#include <map>

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

void RandomState::capture(c10::GeneratorImpl& generator) {
  if (generator.device().is_cpu()) {
    return capture_twister(static_cast<at::CPUGeneratorImpl&>(generator));
  }
  std::lock_guard<std::mutex> guard(generator.mutex_);
  seed = generator.current_seed();
  offset = generator.get_offset();
}

void RandomState::load_into(c10::GeneratorImpl& generator) const {
  if (table != nullptr) return load_into_twister(static_cast<at::CPUGeneratorImpl&>(generator));
  std::lock_guard<std::mutex> guard(generator.mutex_);
  generator.set_current_seed(seed);  // sets the offset to 0
  generator.set_offset(offset);
}

void RandomState::capture_twister(at::CPUGeneratorImpl& generator) {
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

void RandomState::load_into_twister(at::CPUGeneratorImpl& generator) const {
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
  void* token = TorchBackend::leave_interpreter();
  mutex().lock();
  TorchBackend::enter_interpreter(token);
}

c10::GeneratorImpl& default_generator(c10::Device device) {
  return *at::globalContext().defaultGenerator(device).unsafeGetGeneratorImpl();
}

const at::Generator& private_generator(c10::Device device) {
  static auto* generators = new std::map<c10::DeviceIndex, at::Generator>;
  const auto found = generators->find(device.index());
  if (found != generators->end()) return found->second;
  return generators->emplace(device.index(), at::globalContext().defaultGenerator(device).clone())
      .first->second;
}

DefaultGeneratorScope::DefaultGeneratorScope(c10::Device device, const RandomState& state)
    : generator_(default_generator(device)) {
  before_.capture(generator_);
  state.load_into(generator_);
}

DefaultGeneratorScope::~DefaultGeneratorScope() {
  if (!TIDEPOOL_MUTANT(4, put_back)) before_.load_into(generator_);
}

}  // namespace tidepool::torch_glue
