#include "allocator/locks/device_mutex.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include "allocator/locks/calls_in_flight.h"
#include "allocator/locks/interpreter_lock.h"
#include "tests/support/catch.h"

namespace tidepool {
namespace {

// An interpreter whose lock the calling thread may have.
std::mutex g_interpreter;
thread_local bool t_has_interpreter = false;
std::atomic<int> g_let_go{0};
constexpr InterpreterLock::Functions kInterpreter{[] { return t_has_interpreter; },
                                                  [] {
                                                    ++g_let_go;
                                                    g_interpreter.unlock();
                                                    for (int k = 0; k < 100; ++k)
                                                      std::this_thread::yield();
                                                    g_interpreter.lock();
                                                  }};

TEST_CASE("who waits for a lock with the interpreter's lets go of that for who wants it") {
  InterpreterLock::set(kInterpreter);
  g_let_go = 0;
  DeviceMutex mutex;
  DeviceLock lock(mutex);
  std::atomic<bool> has_both{false}, waits{false};
  std::thread other([&] {
    const std::lock_guard<std::mutex> interpreter(g_interpreter);
    t_has_interpreter = true;
    waits = true;
    const DeviceLock own(mutex);
    has_both = true;
    t_has_interpreter = false;
  });
  while (!waits) std::this_thread::yield();
  // The job's code relies on having the interpreter as long as nobody wants it.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(g_let_go == 0);
  {
    const InterpreterLock::Wanted wanted;
    g_interpreter.lock();  // for a moment, with the device's lock held
    g_interpreter.unlock();
  }
  CHECK(!has_both);
  lock.unlock();
  other.join();
  CHECK(has_both);
  CHECK(g_let_go > 0);
}

TEST_CASE("who waits for another thread's calls lets go of the interpreter's lock, too") {
  InterpreterLock::set(kInterpreter);
  DeviceMutex mutex;
  CallsInFlight calls;
  auto sequence = std::make_unique<CallsInFlight::Sequence>(calls);
  std::atomic<bool> waits{false};
  std::thread other([&] {
    const std::lock_guard<std::mutex> interpreter(g_interpreter);
    t_has_interpreter = true;
    {
      DeviceLock lock(mutex);
      waits = true;
      calls.wait_for_all(lock);
    }
    t_has_interpreter = false;
  });
  while (!waits) std::this_thread::yield();
  g_interpreter.lock();  // as what ends within the calls may need it
  g_interpreter.unlock();
  DeviceLock lock(mutex);
  CHECK(calls.any());
  sequence.reset();
  lock.unlock();
  other.join();
}

}  // namespace
}  // namespace tidepool
