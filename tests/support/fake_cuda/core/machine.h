// Machine: the stand-in devices of this process: memory, streams, captures, books and checkers.
// The functions of the driver and the runtime are thin: they translate, and call run(), which
// takes the lock, counts the call, lets it fail if it should, and notes misuse.
// Owns everything below. Thread safe through run(); components may be touched inside it, or by a
// test that has no other thread.
// Invariants: (1) a call that is refused or made to fail changes nothing but the books.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_cuda/core/admission.h"
#include "tests/support/fake_cuda/core/allocations.h"
#include "tests/support/fake_cuda/core/call_book.h"
#include "tests/support/fake_cuda/core/captures.h"
#include "tests/support/fake_cuda/core/operation_log.h"
#include "tests/support/fake_cuda/core/order.h"
#include "tests/support/fake_cuda/core/physical_memory.h"
#include "tests/support/fake_cuda/core/race_checker.h"
#include "tests/support/fake_cuda/core/remote_work.h"
#include "tests/support/fake_cuda/core/settings.h"
#include "tests/support/fake_cuda/core/virtual_memory.h"

namespace tidepool::fake_cuda {

// A call that CUDA would refuse. Being out of memory is none, nor is asking for what a device does
// not support, by which programs find out.
struct Misuse {
  std::string function;
  Error error;
  std::string why;
};

class Machine {
 private:
  std::vector<std::unique_ptr<PhysicalMemory>> devices_;

 public:
  explicit Machine(Settings wanted);

  Settings settings;  // DEVICES, MEMORY and CLOCK count only when it is made
  CallBook book;
  Allocations allocations;
  VirtualMemory virtual_memory;
  Order order;
  Captures captures;
  RaceChecker races;
  RemoteWorks remote;
  OperationLog log;
  // First the device that works, then the one whose memory it was let into.
  std::set<std::pair<int, int>> peers;
  std::vector<Misuse> misuses;
  Error broken = Error::kSuccess;  // by which every call fails from now on
  std::mutex mutex;

  // A call begins: what others use may be another part of the device.
  void change_outside();
  PhysicalMemory& memory(int device) { return *devices_.at(device); }

  // Enqueues an operation that touches nothing it names. Throws: Unfinished, as all below that
  // enqueue or wait.
  // It takes `device_ns` beyond the price of its call.
  void operate(Stream& stream, Call call, const char* name, uint64_t device_ns = 0,
               Order::Engine* engine = nullptr);
  // Enqueues a copy, and makes it at once unless it is captured. Throws: Refusal with
  // kIllegalAddress where device memory cannot be touched.
  // The devices of `ends` have to have access to the operands, each to its own.
  struct Ends {
    int to = 0;
    int from = 0;
  };
  void copy(void* to, const void* from, size_t bytes, Ends ends, Stream& stream, const char* name);
  // Enqueues a fill of `count` elements of 1, 2 or 4 bytes.
  void fill(void* to, uint32_t value, size_t element_bytes, size_t count, Stream& stream,
            const char* name);
  void launch(Stream& stream, const char* kernel, uint64_t threads);
  // Enqueues work that others will do. Returns what it comes after and is not done. Throws: nothing
  // of what is unfinished.
  Works launch_remote(Stream& stream, const char* name, std::shared_ptr<RemoteWork> work);
  void launch_graph(const Graph& graph, Stream& stream, const char* name);

  void record(Event& event, Stream& stream);
  void wait(Stream& stream, const Event& event, bool is_external);
  // What has this clock, or is enqueued on the stream now, waits for the work of others.
  void await(const VectorClock& clock);
  void await(Stream& stream);
  void await_device(int device);
  bool poll(Event& event);
  bool poll(Stream& stream);
  void synchronize(const Event& event);
  void synchronize(Stream& stream);
  void synchronize_device(int device);

  // -1: no device memory.
  int device_of(const void* address) const;
  // Returns whether it is device memory at all. Throws: Refusal where it is, or addresses are
  // reserved for it, but `device` may not touch it. What cudaMalloc handed out every device can
  // copy: the driver finds a way.
  bool check_accessible(const void* start, size_t bytes, bool writes,
                        int device = VirtualMemory::kAnyDevice) const;
  // The stream's newest operation reads or writes the memory.
  void use(uintptr_t address, size_t bytes, bool writes, const Stream& stream);
  // The memory goes back to the device.
  void returned(uintptr_t address, size_t bytes);

 private:
  void check_may_enqueue(const Stream& stream);
  void enqueue(Stream& stream, Call call, const char* name, uint64_t device_ns,
               Order::Engine* engine);
  void note(LogEntry entry);
  // The links between a device and the host: there is one in each direction.
  struct Links {
    Order::Engine to_host;
    Order::Engine to_device;
  };
  std::vector<Links> links_;

  std::mt19937_64 others_;  // whose numbers are the same in every standard library
};

// The machine of this process, made from the environment when it is first asked for. Settings that
// are wrong end the process with a message.
Machine& machine();
// Null where nobody has asked yet.
Machine* made_machine();
// Replaces it by a new one. Requires: nobody uses what the old one gave out.
Machine& reset(const Settings& settings);

// What the calling thread has set.
CaptureMode& current_capture_mode();

// Runs a call's body under the lock. Returns what it returned, the refusal it threw, or the
// failure that was asked for, in which case it did not run, as for a call that is not admitted. A
// body returns kSuccess or kNotReady. One that throws Unfinished runs again once the work is done,
// and the lock is not held meanwhile; where the work has failed, so has the call.
Error run(Call call, const char* function, const std::function<Error(Machine&)>& body);
// For a call that a capture may forbid.
Error run_unsafe(Call call, const char* function, const std::function<Error(Machine&)>& body);

}  // namespace tidepool::fake_cuda
