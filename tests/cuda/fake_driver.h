// FakeDriver: a CUDA driver that keeps books and does nothing: contexts, virtual memory, streams
// and events with the driver's error codes, strict about misuse (mapping over a mapping, unmapping
// a part of one, access to what is not mapped, a stream of another device).
// Addresses have no memory behind them, but for small allocations, whose fills and copies are real;
// kernels are run by what on_launch does. Work is done when finish() says so. Calls can be made to
// fail by number.
// Owns its books; one exists at a time, since the driver's functions have no object to belong to.
// Not thread safe.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cuda/driver/driver_functions.h"

namespace tidepool::device::test {

class FakeDriver {
 public:
  explicit FakeDriver(int devices = 1);
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;
  static FakeDriver& current();

  // Finds every function but those named in `absent`.
  FunctionFinder finder(std::vector<std::string> absent = {}) const;
  DriverFunctions functions() const { return find_driver_functions(finder()); }

  // Knobs.
  size_t memory_bytes = size_t{1} << 40;  // per device
  size_t host_bytes = size_t{1} << 30;    // that can be page-locked
  size_t granularity = size_t{2} << 20;
  bool exports = true;        // handles as file descriptors
  bool rdma = false;          // says so
  bool refuses_rdma = false;  // whatever it says
  bool virtual_memory = true;
  // The n-th call from now on fails (of the function with this name, "" for any), and those after
  // it, `times` in all.
  void fail_at(size_t n, size_t times = 1, const std::string& function = "");
  bool failed() const { return failed_; }
  // All calls so far, or those of one function.
  size_t calls(const std::string& function = "") const;

  driver::Stream add_stream(int device);
  // All work on all devices is done / work on one stream is.
  void finish();
  void finish(driver::Stream stream, int device);
  // Work on the stream of the device (for null: its default stream).
  void launch(driver::Stream stream, int device);
  void make_current(int device);  // -1: none
  int current_device() const;

  // What is held.
  size_t handle_count() const { return handles_.size(); }
  size_t handle_bytes() const;
  size_t mapping_count() const { return mappings_.size(); }
  size_t range_count() const { return ranges_.size(); }
  size_t allocation_count() const { return allocations_.size(); }
  size_t host_held() const;
  size_t event_count() const { return events_.size(); }
  size_t stream_count() const { return streams_.size(); }
  int primary_references(int device) const { return primary_references_.at(device); }
  bool accessible(driver::DevicePointer address, int device) const;

  struct Copy {
    uintptr_t to = 0, from = 0;
    size_t bytes = 0;
    driver::Stream stream = nullptr;
  };
  std::vector<Copy> copies;
  struct Wait {
    driver::Stream stream = nullptr;
    int device = 0;
    driver::Event event = nullptr;
  };
  std::vector<Wait> waits;
  struct Fill {
    driver::DevicePointer address = 0;
    size_t bytes = 0;
    unsigned char value = 0;
  };
  std::vector<Fill> fills;
  // A kernel by its name, with the number of threads, and its arguments' addresses.
  std::function<void(const std::string&, size_t threads, void** arguments)> on_launch;
  size_t modules = 0;  // loaded
  std::vector<driver::Stream> recorded_on;
  std::vector<int> recorded_devices;

 private:
  friend struct FakeCalls;
  struct Handle {
    size_t bytes = 0;
    int device = 0;
    bool released = false;  // lives on while it is mapped
    size_t mappings = 0;
  };
  struct Mapping {
    size_t bytes = 0;
    driver::AllocationHandle handle = 0;
    std::vector<int> devices;  // that may access it
  };
  struct Queue {
    uint64_t given = 0, done = 0;
  };
  struct Event {
    int device = 0;
    Queue* queue = nullptr;  // null: never recorded
    uint64_t position = 0;
  };
  // Counts the call; the error to return where it is to fail, else success.
  driver::Result enter(const char* function);
  Queue& queue(driver::Stream stream, int device) { return queues_[{stream, device}]; }
  // The device of a stream: of null, the current one. -1: there is none.
  int device_of(driver::Stream stream) const;
  bool has_memory(driver::DevicePointer address) const;
  void forget_if_gone(driver::AllocationHandle handle);

  std::map<std::string, size_t> calls_;
  std::string failing_;
  size_t fail_in_ = 0, fail_times_ = 0;
  bool failed_ = false;
  std::vector<int> primary_references_;
  std::vector<int> context_stack_;
  std::map<driver::DevicePointer, size_t> ranges_;
  std::map<driver::DevicePointer, Mapping> mappings_;
  std::map<driver::AllocationHandle, Handle> handles_;
  std::map<driver::DevicePointer, size_t> allocations_;
  std::vector<std::vector<char>> host_memory_;
  std::map<driver::DevicePointer, std::vector<uint64_t>> memory_;  // of small allocations
  std::map<driver::Stream, int> streams_;
  std::map<std::pair<driver::Stream, int>, Queue> queues_;
  std::map<driver::Event, Event> events_;
  uint64_t next_ = 1;
  driver::DevicePointer next_address_ = driver::DevicePointer{1} << 44;
};

}  // namespace tidepool::device::test
