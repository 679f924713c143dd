// SimulatedCopies: a CopyEngine that copies at once, and tells the oracle of races which bytes are
// used on which stream.
#pragma once

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "allocator/base/device_error.h"
#include "allocator/streams/copy_engine.h"
#include "tests/support/catch.h"
#include "tests/support/simulated_streams.h"

namespace tidepool::test {

inline constexpr StreamId kJob{0}, kOutStream{1}, kInStream{2}, kOther{3};

class SimulatedCopies final : public CopyEngine {
 public:
  struct World {
    SimulatedStreams streams{4};
    size_t host_bytes = SIZE_MAX;  // that can be page-locked
    size_t held = 0;
    std::vector<size_t> slabs;
    size_t fail_copy_in = 0;        // 1: the next one
    size_t fail_allocation_in = 0;  // the same
    bool refuses_order = false;     // copies cannot be made to wait for other streams
    std::string race;               // the first one

    void use(StreamId stream, const void* at, size_t bytes) {
      const std::string found =
          streams.launch(stream, Address{reinterpret_cast<uintptr_t>(at)}, bytes);
      if (race.empty()) race = found;
    }
  };

  explicit SimulatedCopies(World& world) : world_(world) {}
  ~SimulatedCopies() override { CHECK(world_.held == 0); }

  void* allocate_host(size_t bytes) override {
    if (world_.fail_allocation_in > 0 && --world_.fail_allocation_in == 0) return nullptr;
    if (bytes > world_.host_bytes - world_.held) return nullptr;
    world_.held += bytes;
    world_.slabs.push_back(bytes);
    void* const address = std::malloc(bytes);
    sizes_[address] = bytes;
    return address;
  }
  void free_host(void* address) override {
    world_.held -= sizes_.at(address);
    sizes_.erase(address);
    std::free(address);
  }
  StreamId stream(CopyDirection direction) override {
    return direction == CopyDirection::kOut ? kOutStream : kInStream;
  }
  void order_after(CopyDirection direction, StreamId other) override {
    if (world_.refuses_order) throw DeviceError("refused");
    world_.streams.wait(stream(direction), *world_.streams.record(other));
  }
  void wait(CopyDirection direction, Fence& fence) override {
    world_.streams.wait(stream(direction), fence);
  }
  void copy(CopyDirection direction, void* to, const void* from, size_t bytes) override {
    if (world_.fail_copy_in > 0 && --world_.fail_copy_in == 0) throw DeviceError("refused");
    world_.use(stream(direction), to, bytes);
    world_.use(stream(direction), from, bytes);
    std::memcpy(to, from, bytes);
  }
  std::shared_ptr<Fence> record(CopyDirection direction) override {
    return world_.streams.record(stream(direction));
  }
  double measure_ns_per_byte(CopyDirection direction, size_t) override {
    return direction == CopyDirection::kOut ? 0.5 : 0.25;
  }

 private:
  World& world_;
  std::map<void*, size_t> sizes_;
};

}  // namespace tidepool::test
