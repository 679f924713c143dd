#include "bindings/torch/state/random_state.h"

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <utility>

#include "allocator/base/per_thread.h"
#include "bindings/torch/base/devices.h"
#include "bindings/torch/base/interpreter.h"
#include "bindings/torch/state/default_generator.h"

namespace tidepool::torch_glue {
namespace {

// Access to the engine's table, of which its getters only make copies of 2.5 KB. Explicit
// instantiations may name private members.
template <at::mt19937 at::CPUGeneratorImpl::* Engine>
struct EngineMember {
  friend at::mt19937 at::CPUGeneratorImpl::* engine_member() { return Engine; }
};
at::mt19937 at::CPUGeneratorImpl::* engine_member();
template struct EngineMember<&at::CPUGeneratorImpl::engine_>;

template <at::mt19937_data_pod at::mt19937::* Data>
struct DataMember {
  friend at::mt19937_data_pod at::mt19937::* data_member() { return Data; }
};
at::mt19937_data_pod at::mt19937::* data_member();
template struct DataMember<&at::mt19937::data_>;

at::mt19937_data_pod& twister(at::CPUGeneratorImpl& generator) {
  return (generator.*engine_member()).*data_member();
}

at::CPUGeneratorImpl& cpu(c10::GeneratorImpl& generator) {
  return static_cast<at::CPUGeneratorImpl&>(generator);
}

// The number that random_state_bytes() returns.
std::atomic<size_t> g_bytes{0};
constexpr size_t kGeneratorBytes = sizeof(at::CPUGeneratorImpl);  // the larger kind
constexpr size_t kTableBytes = sizeof(TwisterTable) + 16;         // with its count of references

using Table = decltype(at::mt19937_data_pod::state_);

void copy_position(const at::mt19937_data_pod& from, at::mt19937_data_pod& to) {
  to.seed_ = from.seed_;
  to.left_ = from.left_;
  to.seeded_ = from.seeded_;
  to.next_ = from.next_;
}

void copy_normals(at::CPUGeneratorImpl& from, at::CPUGeneratorImpl& to) {
  to.set_next_float_normal_sample(from.next_float_normal_sample());
  to.set_next_double_normal_sample(from.next_double_normal_sample());
}

// A thread's generators: one from which recorded operators draw, and one from which replays draw.
struct ThreadGenerators {
  std::map<c10::Device, at::Generator, bool (*)(c10::Device, c10::Device)> draws{&before};
  std::map<c10::Device, at::Generator, bool (*)(c10::Device, c10::Device)> replays{&before};
  // The snapshot of the table of the CPU's generator in `draws`, if there is one.
  std::shared_ptr<const TwisterTable> table;

  ~ThreadGenerators() { g_bytes.fetch_sub(bytes, std::memory_order_relaxed); }
  size_t bytes = 0;  // of both maps

  static bool before(c10::Device one, c10::Device other) {
    return one.type() != other.type() ? one.type() < other.type() : one.index() < other.index();
  }
};

ThreadGenerators& of_this_thread() { return PerThread<ThreadGenerators>::get(); }

thread_local bool t_has_turn = false;  // a TurnToDraw of this thread's has its lock

// What TurnToDraw has to lock; no mutex if there is nothing to do.
std::unique_lock<std::mutex> turn_on(c10::Device device) {
  static std::array<std::mutex, detail::kMostDevices> mutexes;
  if (device.is_cpu() || t_has_turn) return {};
  return {mutexes[static_cast<size_t>(device.index())], std::defer_lock};
}

// Locks the mutexes that there are, in this order. Nobody may wait for Python's lock while holding
// one of them: a thread that seeds holds Python's lock and waits for the generator's.
void take(std::unique_lock<std::mutex>& first, std::unique_lock<std::mutex>& second) {
  const auto try_both = [&] {
    if (first.mutex() != nullptr && !first.try_lock()) return false;
    if (second.mutex() == nullptr || second.try_lock()) return true;
    if (first.mutex() != nullptr) first.unlock();
    return false;
  };
  while (!try_both()) {
    void* token = leave_interpreter();
    if (first.mutex() != nullptr) first.lock();
    if (second.mutex() != nullptr) second.lock();
    if (token == nullptr) return;
    if (second.mutex() != nullptr) second.unlock();
    if (first.mutex() != nullptr) first.unlock();
    enter_interpreter(token);
  }
}

at::Generator& find_or_make(decltype(ThreadGenerators::draws)& generators, c10::Device device) {
  const auto found = generators.find(device);
  if (found != generators.end()) return found->second;
  // The generator is a fresh one, because cloning the default one would read its state while other
  // threads draw from it.
  at::Generator fresh = new_generator(device);
  of_this_thread().bytes += kGeneratorBytes;
  g_bytes.fetch_add(kGeneratorBytes, std::memory_order_relaxed);
  return generators.emplace(device, std::move(fresh)).first->second;
}

}  // namespace

size_t random_state_bytes() { return g_bytes.load(std::memory_order_relaxed); }

TwisterTable::TwisterTable(const at::mt19937_data_pod& from) : data(from) {
  g_bytes.fetch_add(kTableBytes, std::memory_order_relaxed);
}

TwisterTable::~TwisterTable() { g_bytes.fetch_sub(kTableBytes, std::memory_order_relaxed); }

void RandomState::load_into(c10::GeneratorImpl& generator) const {
  std::lock_guard<std::mutex> guard(generator.mutex_);
  if (table == nullptr) {
    generator.set_current_seed(seed);  // sets the offset to 0
    generator.set_offset(offset);
    return;
  }
  at::mt19937_data_pod& data = twister(cpu(generator));
  data = table->data;
  data.left_ = left;
  data.next_ = next;
  data.seed_ = seed;
  cpu(generator).set_next_float_normal_sample(next_float_normal);
  cpu(generator).set_next_double_normal_sample(next_double_normal);
}

PrivateDraw::PrivateDraw(GeneratorOffsets& offsets, c10::GeneratorImpl& source, RandomState& state)
    : offsets_(offsets),
      source_(source),
      turn_(turn_on(source.device())),
      lock_(source.mutex_, std::defer_lock) {
  generator_ = &find_or_make(of_this_thread().draws, source.device());
  take(turn_, lock_);
  if (source.device().is_cpu()) {
    begin_twister(state);
    return;
  }
  state.seed = source.current_seed();
  state.offset = source.get_offset();
  generator_->unsafeGetGeneratorImpl()->set_current_seed(state.seed);
  generator_->unsafeGetGeneratorImpl()->set_offset(state.offset);
}

PrivateDraw::~PrivateDraw() {
  if (source_.device().is_cpu()) {
    end_twister();
  } else {
    offsets_.set_generator_offset(source_, generator_->unsafeGetGeneratorImpl()->get_offset());
  }
}

void PrivateDraw::begin_twister(RandomState& state) {
  at::CPUGeneratorImpl& own = cpu(*generator_->unsafeGetGeneratorImpl());
  at::mt19937_data_pod& to = twister(own);
  const at::mt19937_data_pod& from = twister(cpu(source_));
  std::shared_ptr<const TwisterTable>& table = of_this_thread().table;
  if (std::memcmp(&to.state_, &from.state_, sizeof(Table)) != 0) {
    to.state_ = from.state_;
    table = nullptr;
  }
  copy_position(from, to);
  copy_normals(cpu(source_), own);
  if (table == nullptr) table = std::make_shared<const TwisterTable>(to);
  state.table = table;
  state.left = to.left_;
  state.next = to.next_;
  state.seed = to.seed_;
  state.next_float_normal = own.next_float_normal_sample();
  state.next_double_normal = own.next_double_normal_sample();
}

void PrivateDraw::end_twister() {
  at::CPUGeneratorImpl& own = cpu(*generator_->unsafeGetGeneratorImpl());
  const at::mt19937_data_pod& from = twister(own);
  at::mt19937_data_pod& to = twister(cpu(source_));
  if (std::memcmp(&to.state_, &from.state_, sizeof(Table)) != 0) {
    to.state_ = from.state_;
    of_this_thread().table = nullptr;
  }
  copy_position(from, to);
  copy_normals(own, cpu(source_));
}

TurnToDraw::TurnToDraw(c10::Device device) : lock_(turn_on(device)) {
  std::unique_lock<std::mutex> no_other;
  take(lock_, no_other);
  if (lock_.owns_lock()) t_has_turn = true;
}

TurnToDraw::~TurnToDraw() {
  if (lock_.owns_lock()) t_has_turn = false;
}

bool TurnToDraw::is_taken_by_this_thread() { return t_has_turn; }

SeriesOfDraws::SeriesOfDraws(c10::Device device)
    : turn_(device), source_(default_generator(device)) {
  std::lock_guard<std::mutex> guard(source_.mutex_);
  seed_ = source_.current_seed();
  offset_ = source_.get_offset();
}

bool SeriesOfDraws::end(GeneratorOffsets& offsets, uint64_t offset) {
  std::lock_guard<std::mutex> guard(source_.mutex_);
  const uint64_t present = source_.get_offset();
  if (source_.current_seed() != seed_ || present < offset_ || offset == offset_) return true;
  if (present > offset_) return false;
  offsets.set_generator_offset(source_, offset);
  return true;
}

const at::Generator& replay_generator(c10::Device device) {
  return find_or_make(of_this_thread().replays, device);
}

}  // namespace tidepool::torch_glue
