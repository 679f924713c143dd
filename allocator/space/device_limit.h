// DeviceLimit: how many pages the device has been able to give, as far as its refusals tell. Memory
// that others hold (libraries, other processes) comes and goes, so that a refusal does not hold for
// ever: after some requests the device is asked again, after twice as many each time that it
// refuses again.
// Not thread safe: lock held.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tidepool {

class DeviceLimit {
 public:
  // How many pages may be committed; SIZE_MAX where the device has refused nothing, or is to be
  // asked again.
  size_t pages() const { return pages_; }
  bool is_set() const { return pages_ != SIZE_MAX; }
  // What it was when the device refused last, until it has given more than that.
  size_t last_pages() const { return last_pages_; }
  bool was_set() const { return last_pages_ != SIZE_MAX; }

  // The device has refused a page beyond the `committed` ones.
  void set(size_t committed) {
    pages_ = last_pages_ = committed;
    patience_ = std::clamp(2 * patience_, kFirst, kMost);
    requests_ = 0;
  }
  // The device has given a page, which is one of the `committed` ones.
  void note_given(size_t committed) {
    if (committed <= last_pages_) return;
    last_pages_ = SIZE_MAX;
    patience_ = 0;
  }
  // A request has come for which room has to be made: from time to time the limit goes, and true
  // is returned.
  bool ask_again() {
    if (!is_set() || ++requests_ < patience_) return false;
    lift();
    return true;
  }
  // The device is to be asked again: nothing else serves a request.
  void lift() { pages_ = SIZE_MAX; }

 private:
  static constexpr uint32_t kFirst = 16, kMost = 1024;  // requests

  size_t pages_ = SIZE_MAX;
  size_t last_pages_ = SIZE_MAX;
  uint32_t patience_ = 0;  // so many requests have to come after a refusal
  uint32_t requests_ = 0;  // have come
};

}  // namespace tidepool
