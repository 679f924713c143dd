#include "tests/sim/small_scope.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <unordered_map>

#include "fmt/format.h"

namespace tidepool::sim {
namespace {

constexpr uint32_t kWords = 8;
constexpr size_t kMostStorages = 100'000;  // the framework never forgets one

const char* const kNames[Event::kCount] = {"update", "overwrite", "die",   "die_late", "report",
                                           "evict",  "escape",    "touch", "fork"};

// Writes down values and records in the order in which they are first met.
class Encoder {
 public:
  std::string out;

  void meet(const remat::Value& value) {
    const auto [at, is_new] = values_.emplace(&value, values_.size());
    if (is_new) pending_.push_back(&value);
    out += static_cast<char>(at->second);
  }

  void finish() {
    for (size_t k = 0; k < pending_.size(); ++k) describe(*pending_[k]);
  }

 private:
  void describe(const remat::Value& value) {
    out += static_cast<char>((value.kept != nullptr) | (value.storage != nullptr) << 1 |
                             (value.producer != nullptr) << 2);
    if (value.producer == nullptr) return;
    const remat::Record& record = *value.producer;
    out += static_cast<char>(record.overwrites);
    out += static_cast<char>(record.written_edge);
    out += static_cast<char>(record.edge_count);
    for (size_t k = 0; k < record.edge_count; ++k) meet(*record.edges[k].value);
  }

  std::unordered_map<const remat::Value*, size_t> values_;
  std::vector<const remat::Value*> pending_;
};

}  // namespace

std::string Event::text() const {
  if (kind == kFork) return kNames[kind];
  if (other == tensor || kind > kOverwrite) return fmt::format("{} {}", kNames[kind], tensor);
  return fmt::format("{} {} from {}", kNames[kind], tensor, other);
}

void SmallScope::begin(const Shape& shape) {
  if (job_ == nullptr || forked_ || storages_made_ > kMostStorages) {
    remat::RuntimeConfig config;
    config.limits.age_steps = UINT32_MAX;
    job_ = std::make_unique<RematFixture>(64 << 10, config);
    storages_made_ = 0;
  }
  forked_ = false;
  failure_.clear();
  for (size_t k = 0; k < count_; ++k) {
    RematFixture::Tensors inputs;
    for (size_t n = 0; n < k; ++n) {
      if ((shape[k] >> n & 1) != 0) inputs.push_back(slots_[n].storage);
    }
    slots_[k] = {inputs.empty() ? job_->input(kWords) : job_->pure(inputs, kWords)};
    job_->tracked(slots_[k].storage);
  }
  storages_made_ += count_;
}

bool SmallScope::possible(const Event& event) const {
  if (event.kind == Event::kFork) return !forked_;
  const Slot& slot = slots_[event.tensor];
  if (slot.storage == nullptr) return false;
  const remat::Storage& storage = tracked(event.tensor);
  switch (event.kind) {
    case Event::kUpdate:
    case Event::kOverwrite:
      return !slot.late && is_live(event.other);
    case Event::kDie:
    case Event::kDieLate:
      return !slot.late;
    case Event::kReport:
      return slot.late;
    case Event::kEvict:
      return !forked_ && !storage.evicted && !storage.dying && storage.current->producer != nullptr;
    case Event::kEscape:
      return !slot.late && !slot.escaped;
    case Event::kTouch:
      return !slot.late && (storage.evicted || slot.escaped);
    default:
      return false;
  }
}

void SmallScope::apply(const Event& event) {
  try {
    if (event.kind == Event::kFork) {
      forked_ = true;
      job_->allocator.become_forked_child();
      job_->runtime.become_forked_child();
    } else if (event.kind <= Event::kOverwrite) {
      write(event);
    } else {
      act_on(event);
    }
  } catch (const std::exception& error) {
    failure_ = error.what();
  }
}

void SmallScope::write(const Event& event) {
  RematFixture::Tensors inputs;
  if (event.other != event.tensor) inputs.push_back(slots_[event.other].storage);
  if (event.kind == Event::kUpdate) {
    job_->update(slots_[event.tensor].storage, inputs);
  } else {
    job_->overwrite(slots_[event.tensor].storage, inputs);
  }
}

void SmallScope::act_on(const Event& event) {
  Slot& slot = slots_[event.tensor];
  switch (event.kind) {
    case Event::kDie:
      job_->drop(std::exchange(slot.storage, nullptr));
      break;
    case Event::kDieLate:
      slot.late = true;
      job_->framework.drop_reference_silently(slot.storage);
      break;
    case Event::kReport:
      job_->framework.report_death(std::exchange(slot, {}).storage);
      break;
    case Event::kEvict:
      job_->evict(slot.storage);
      break;
    case Event::kEscape: {
      DeviceLock lock(job_->mutex);
      job_->runtime.escape(slot.storage->tracked, lock);
      slot.escaped = true;
      SimulatedFramework::scribble(slot.storage, event.tensor);
      break;
    }
    case Event::kTouch:
      if (slot.escaped && !slot.storage->evicted) {
        SimulatedFramework::scribble(slot.storage, 100 + event.tensor);
      } else if (!job_->matches(slot.storage)) {
        failure_ = fmt::format("tensor {} has other contents", event.tensor);
      }
      break;
    default:
      break;
  }
}

std::string SmallScope::encode(const Order& order) const {
  Encoder encoder;
  for (size_t k = 0; k < count_; ++k) {
    const size_t at = order[k];
    if (slots_[at].storage == nullptr) {
      encoder.out += '\0';
      continue;
    }
    const remat::Storage& storage = tracked(at);
    encoder.out += static_cast<char>(1 | slots_[at].late << 1 | storage.evicted << 2 |
                                     storage.dying << 3 | slots_[at].escaped << 4);
    encoder.meet(*storage.current);
  }
  encoder.finish();
  return encoder.out;
}

std::string SmallScope::key() const {
  Order order;
  std::iota(order.begin(), order.end(), uint8_t{0});
  std::string least;
  do {
    std::string code = encode(order);
    if (least.empty() || code < least) least = std::move(code);
  } while (std::next_permutation(order.begin(), order.begin() + count_));
  least += static_cast<char>(forked_ | job_->runtime.sweep_is_due() << 1);
  return least;
}

void SmallScope::read_all() {
  for (size_t k = 0; k < count_; ++k) {
    const Slot& slot = slots_[k];
    if (!is_live(k) || !failure_.empty()) continue;
    if (slot.escaped && slot.storage->evicted) {
      failure_ = fmt::format("tensor {} has escaped, and was evicted", k);
    } else if (!job_->matches(slot.storage)) {
      failure_ = fmt::format("tensor {} has other contents at the end", k);
    }
  }
}

std::string SmallScope::end() {
  try {
    job_->runtime.check_invariants();
    read_all();
    {
      DeviceLock lock(job_->mutex);
      job_->runtime.evict_everything();
    }
    read_all();
    for (Slot& slot : slots_) {
      if (slot.late) job_->framework.report_death(std::exchange(slot, {}).storage);
    }
    read_all();
    for (Slot& slot : slots_) {
      if (slot.storage != nullptr) job_->drop(slot.storage);
      slot = {};
    }
    if (++ends_ % 1024 == 0) job_->check();  // looks at every size class
  } catch (const std::exception& error) {
    if (failure_.empty()) failure_ = error.what();
  }
  const remat::RuntimeStatistics left = job_->statistics();
  if (failure_.empty() && left.values + left.records + left.storages > 0) {
    failure_ = fmt::format("left over: {} values, {} records, {} storages", left.values,
                           left.records, left.storages);
  }
  if (failure_.empty() && job_->allocator.statistics().allocated_bytes > 0) {
    failure_ = "bytes are left over";
  }
  return failure_;
}

}  // namespace tidepool::sim
