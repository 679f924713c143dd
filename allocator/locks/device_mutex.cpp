#include "allocator/locks/device_mutex.h"

#include <chrono>
#include <thread>

#include "allocator/locks/interpreter_lock.h"

namespace tidepool {

void DeviceMutex::lock_contended() {
  if (!InterpreterLock::is_held()) return mutex_.lock();
  constexpr int kYields = 64, kSleeps = 64;
  for (int tries = 0; !mutex_.try_lock(); ++tries) {
    if (tries < kYields) {
      std::this_thread::yield();
    } else if (tries < kYields + kSleeps) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    } else {  // far longer than anybody works under this lock
      InterpreterLock::let_go_once();
      tries = 0;
    }
  }
}

}  // namespace tidepool
