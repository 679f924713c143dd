// Every order of a few events on a small graph: writes, deaths (reported at once or late),
// evictions, escapes and restores of x -> a -> b and x -> c. Contents as without eviction.
#include <array>
#include <cstdlib>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/remat_fixture.h"

namespace tidepool {
namespace {

enum Event { kUpdate, kOverwrite, kEvict, kDie, kDieLate, kEscape, kRead, kEventCount };

// Events on x, a, b, c; an event on what is dead does nothing.
constexpr size_t kTensors = 4;
constexpr size_t kChoices = kTensors * kEventCount;

class Graph {
 public:
  explicit Graph(bool chaos) : job_(64 << 10, config(chaos)) {
    tensors_[0] = job_.input(16);
    tensors_[1] = job_.pure({tensors_[0]}, 16);
    tensors_[2] = job_.pure({tensors_[1]}, 16);
    tensors_[3] = job_.pure({tensors_[0]}, 16);
  }

  void apply(size_t choice) {
    RematFixture::Tensor& tensor = tensors_[choice / kEventCount];
    if (tensor == nullptr) return;
    switch (choice % kEventCount) {
      case kUpdate: job_.update(tensor); break;
      case kOverwrite: job_.overwrite(tensor); break;
      case kEvict: job_.evict(tensor); break;
      case kDie: job_.drop(std::exchange(tensor, nullptr)); break;
      case kDieLate:
        job_.framework.drop_reference_silently(tensor);
        late_.push_back(std::exchange(tensor, nullptr));
        break;
      case kEscape: {
        DeviceLock lock(job_.mutex);
        job_.runtime.escape(job_.framework.tracked(tensor), lock);
        sim::SimulatedFramework::scribble(tensor, choice);
        break;
      }
      default: same_ &= job_.matches(tensor); break;
    }
  }

  // Empty if all is well at the end.
  std::string finish() {
    job_.check();
    for (RematFixture::Tensor tensor : late_) job_.framework.report_death(tensor);
    for (RematFixture::Tensor tensor : tensors_) same_ &= tensor == nullptr || job_.matches(tensor);
    job_.check();
    for (RematFixture::Tensor tensor : tensors_) {
      if (tensor != nullptr) job_.drop(tensor);
    }
    const remat::RuntimeStatistics left = job_.statistics();
    if (!same_) return "other contents";
    if (left.values + left.records + left.storages > 0) return "lineage is left over";
    if (job_.allocator.statistics().allocated_bytes > 0) return "bytes are left over";
    return "";
  }

 private:
  static remat::RuntimeConfig config(bool chaos) {
    remat::RuntimeConfig config;
    if (chaos) config.chaos = remat::Chaos::kOperator;
    return config;
  }

  RematFixture job_;
  std::array<RematFixture::Tensor, kTensors> tensors_;
  RematFixture::Tensors late_;
  bool same_ = true;
};

TEST_CASE("every order of a few events") {
#ifdef TIDEPOOL_SANITIZED
  constexpr size_t kUsual = 2;
#else
  constexpr size_t kUsual = 3;
#endif
  const size_t length = std::getenv("TIDEPOOL_FULL") != nullptr ? kUsual + 1 : kUsual;
  size_t orders = 1;
  for (size_t k = 0; k < length; ++k) orders *= kChoices;
  for (size_t order = 0; order < 2 * orders; ++order) {
    Graph graph(order % 2 == 1);
    size_t rest = order / 2;
    for (size_t k = 0; k < length; ++k, rest /= kChoices) graph.apply(rest % kChoices);
    const std::string failure = graph.finish();
    if (!failure.empty()) FAIL("order " << order << ": " << failure);
  }
  CHECK(orders > 700);
}

}  // namespace
}  // namespace tidepool
