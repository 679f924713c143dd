#include "allocator/locks/device_mutex.h"

#include <chrono>
#include <thread>

#include "allocator/locks/interpreter_lock.h"

namespace tidepool {

void DeviceMutex::lock_contended() {
  if (!InterpreterLock::is_held()) return mutex_.lock();
  constexpr int kYields = 64, kMostTries = 20'000;  // about a second: nobody works for so long
  for (int tries = 0; !mutex_.try_lock(); ++tries) {
    if (InterpreterLock::is_wanted() || tries == kMostTries) {
      InterpreterLock::let_go_once();
      tries = 0;
    } else if (tries < kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

}  // namespace tidepool
