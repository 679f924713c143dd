// PerThread: an object of each thread that uses it, which lives as long as anything on the thread
// may do so: destructors of the program's own thread-local and static objects, and its handlers at
// exit, run after those of a thread-local object. Once the thread has ended the object is
// destroyed, and made anew for whoever still asks; the main thread's lives for good.
#pragma once

#include <pthread.h>

namespace tidepool {

// `Tag` tells apart objects of the same type. Thread safe.
template <class T, class Tag = T>
class PerThread {
 public:
  // The calling thread's. Made by default at its first use.
  static T& get() {
    if (t_mine == nullptr) [[unlikely]]
      make();
    return *t_mine;
  }

 private:
  static void make() {
    struct Key {
      pthread_key_t key{};
      bool is_made = pthread_key_create(&key, &destroy) == 0;
    };
    static const Key key;
    t_mine = new T();
    if (key.is_made) pthread_setspecific(key.key, t_mine);  // else it lives for good
  }
  static void destroy(void* object) {
    t_mine = nullptr;
    delete static_cast<T*>(object);
  }

  static inline constinit thread_local T* t_mine = nullptr;
};

}  // namespace tidepool
