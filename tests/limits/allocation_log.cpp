// A log of what PyTorch asks of its CPU allocator, seen from outside, for test_allocation_sequence.
// Stands in front of the installed allocator. With `own_deleter` it sees frees as well; without it
// passes the inner allocator's DataPtr on untouched (Tidepool knows its memory by its deleter) and
// sees allocations only. Meant for one thread.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace {

struct Log {
  c10::Allocator* inner = nullptr;
  bool own_deleter = false;
  std::string text;  // one line per event: "allocate ADDRESS BYTES" or "free ADDRESS"

  void add(const char* event, const void* address) {
    text += event;
    text += ' ';
    text += std::to_string(reinterpret_cast<uintptr_t>(address));
  }
};
Log& log() {
  static Log* all = new Log;
  return *all;
}

void free_logged(void* address) {
  if (address == nullptr) return;
  log().add("free", address);
  log().text += '\n';
  log().inner->raw_deleter()(address);
}

class LoggingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr data = log().inner->allocate(bytes);
    if (data.get() != nullptr) {
      log().add("allocate", data.get());
      log().text += ' ' + std::to_string(bytes) + '\n';
    }
    if (!log().own_deleter) return data;
    void* address = data.release_context();
    return {address, address, &free_logged, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return log().own_deleter ? &free_logged : log().inner->raw_deleter();
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// Installs the log in front of the allocator there is.
EXPORT void allocation_log_install(int own_deleter) {
  log().inner = c10::GetCPUAllocator();
  log().own_deleter = own_deleter != 0;
  c10::SetCPUAllocator(new LoggingAllocator, 255);
}

// Copies the log so far; returns the bytes needed with the NUL, copies nothing if they do not fit.
EXPORT size_t allocation_log_text(char* out, size_t capacity) {
  const std::string& text = log().text;
  if (capacity > text.size()) std::memcpy(out, text.c_str(), text.size() + 1);
  return text.size() + 1;
}
