#include "bench/allocator/patterns.h"

#include <set>
#include <string>

#include "bench/allocator/tidepool_peer.h"
#include "tests/support/catch.h"

namespace tidepool::bench {
namespace {

// Serves the first so many requests.
class CountingPeer final : public Peer {
 public:
  explicit CountingPeer(size_t served) : served_(served) {}
  void* allocate(size_t, StreamId) override {
    if (live == served_) return nullptr;
    return reinterpret_cast<void*>(++live);
  }
  void free(void*, size_t, StreamId) override { --live; }
  size_t reserved_peak_bytes() const override { return 0; }

  size_t live = 0;

 private:
  const size_t served_;
};

TEST_CASE("patterns free all they take, also where requests are refused") {
  std::set<std::string> names;
  for (const Pattern& pattern : patterns()) {
    CAPTURE(pattern.name);
    names.insert(pattern.name);
    for (size_t served : {size_t{7}, SIZE_MAX}) {
      CountingPeer peer(served);
      Workload workload(peer);
      pattern.run(workload);
      CHECK(peer.live == 0);
      CHECK(workload.requests() > 90);
      CHECK((workload.refused() > 0) == (served == 7));
      CHECK(workload.live_peak_bytes() > 0);
    }
  }
  CHECK(names.size() == 5);
}

TEST_CASE("ours serves every pattern on its device") {
  for (const Pattern& pattern : patterns()) {
    CAPTURE(pattern.name);
    TidepoolPeer peer(pattern.device_bytes);
    Workload workload(peer);
    pattern.run(workload);
    CHECK(workload.refused() == 0);
    CHECK(peer.reserved_peak_bytes() <= workload.live_peak_bytes() / 10 * 11);
  }
}

}  // namespace
}  // namespace tidepool::bench
