// StreamWorld: a BudgetedAllocator on a simulated device with streams: a page that loses its place
// while a stream may still use it is a failure. Thread safe as far as the allocator is.
#pragma once

#include "allocator/budgeted_allocator.h"
#include "allocator/space/simulated_space.h"
#include "tests/support/fake_reclaimer.h"
#include "tests/support/stream_watching_space.h"

namespace tidepool::test {

struct StreamWorld {
  static constexpr size_t kPage = 64 << 10;

  StreamWorld(size_t stream_count, const AllocatorConfig& config)
      : streams(stream_count), space(inner, streams), allocator(space, mutex, config) {
    allocator.set_stream_order(&streams);
    allocator.set_reclaimer(&reclaimer);
  }
  static AllocatorConfig config(size_t budget_pages, bool allow_remap = true) {
    AllocatorConfig config;
    config.budget_bytes = budget_pages * kPage;
    config.page_bytes = kPage;
    config.alignment = 512;
    config.allow_remap = allow_remap;
    return config;
  }

  SimulatedStreams streams;
  SimulatedSpace inner{kPage};
  StreamWatchingSpace space;
  DeviceMutex mutex;
  FakeReclaimer reclaimer;
  BudgetedAllocator allocator;
};

}  // namespace tidepool::test
