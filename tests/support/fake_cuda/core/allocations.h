// Allocations: what cudaMalloc and its like handed out, and the host memory that CUDA knows.
// Owns the memory it allocated. Not thread safe: the machine's lock is held.
// Invariants: (1) allocations do not overlap, nor do ranges of host memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/fake_cuda/core/physical_memory.h"

namespace tidepool::fake_cuda {

class Allocations {
 public:
  explicit Allocations(std::vector<std::unique_ptr<PhysicalMemory>>& devices) : devices_(devices) {}
  ~Allocations();
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;

  // Rounded up to granularity(); 0 for no bytes. Throws: Refusal, as all below.
  uintptr_t allocate(int device, size_t bytes);
  // Returns how many bytes were freed. Frees nothing for 0.
  size_t free(uintptr_t address);

  struct Place {
    int device = 0;
    uintptr_t start = 0;
    size_t bytes = 0;
  };
  std::optional<Place> find(uintptr_t address) const;
  size_t live() const { return live_.size(); }

  // Text by which another process opens an allocation, and the same way back.
  std::string ticket(uintptr_t address) const;
  uintptr_t open(const std::string& ticket);
  void close(uintptr_t address);

  // Page-locked host memory: allocated here, or only registered; no more than `limit` together.
  uintptr_t allocate_host(size_t bytes, size_t limit);
  void free_host(uintptr_t address);
  void register_host(uintptr_t address, size_t bytes, size_t limit);
  void unregister_host(uintptr_t address);
  bool is_pinned(uintptr_t address) const;
  size_t live_host() const { return host_.size(); }

 private:
  void check_host_room(size_t bytes, size_t limit) const;

  struct Host {
    size_t bytes;
    bool is_allocated;
  };
  struct Allocation {
    Extent extent;
    bool is_opened = false;  // of another process
  };

  std::vector<std::unique_ptr<PhysicalMemory>>& devices_;
  std::map<uintptr_t, Allocation> live_;
  std::map<uintptr_t, Host> host_;
  size_t host_bytes_ = 0;
};

}  // namespace tidepool::fake_cuda
