#include "tests/support/fake_cuda/control.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "tests/support/fake_cuda/core/machine.h"

namespace tidepool::fake_cuda {
namespace {

constexpr size_t kNothing = ~size_t{0};

// Calls `body` with the machine under its lock.
template <typename Body>
auto locked(const Body& body) {
  Machine& here = machine();
  std::lock_guard lock(here.mutex);
  return body(here);
}

// The stream behind a handle; a null one is that of the device that an address is on.
Stream& stream_of(Machine& machine, void* handle, const void* address) {
  const int device = address ? machine.device_of(address) : -1;
  return machine.order.stream(handle, device < 0 ? current_device() : device);
}

std::string text_of(Machine& machine, std::string_view list, size_t index) {
  if (list == "races" && index < machine.races.races().size()) {
    return describe(machine.races.races()[index]);
  }
  if (list == "misuses" && index < machine.misuses.size()) {
    const Misuse& misuse = machine.misuses[index];
    return fmt::format("{}: {}: {}", misuse.function, driver_name(misuse.error), misuse.why);
  }
  if (list == "log" && index < machine.log.entries().size()) {
    return describe(machine.log.entries()[index]);
  }
  return {};
}

size_t live(Machine& machine, std::string_view what) {
  const std::map<std::string_view, size_t> counts = {
      {"streams", machine.order.live_streams()},
      {"events", machine.order.live_events()},
      {"graphs", machine.captures.live_graphs()},
      {"allocations", machine.allocations.live()},
      {"host_allocations", machine.allocations.live_host()},
      {"reservations", machine.virtual_memory.reservations()},
      {"handles", machine.virtual_memory.handles()},
      {"mappings", machine.virtual_memory.mappings()},
      {"ranges", machine.races.live_ranges()}};
  const auto found = counts.find(what);
  return found == counts.end() ? kNothing : found->second;
}

void set(Machine& machine, const std::string& name, const std::string& text) {
  Settings changed = machine.settings;
  changed.failures.clear();
  changed.prices.clear();
  apply_setting(changed, name, text);
  for (const FailureRule& rule : changed.failures) machine.book.fail(rule);
  for (const Price& price : changed.prices) machine.book.set_price(price);
  machine.settings = changed;
}

// `function` declares that the newest operation of a stream reads or writes a range.
void declare_use(const char* function, const void* start, size_t bytes, void* stream, bool writes) {
  run(Call::kOther, function, [&](Machine& m) {
    const Stream& user = stream_of(m, stream, start);
    if (bytes != 0) m.check_accessible(start, bytes, writes);
    m.use(reinterpret_cast<uintptr_t>(start), bytes, writes, user);
    return Error::kSuccess;
  });
}

}  // namespace

FAKE_CUDA_API int fake_cuda_set(const char* name, const char* text) {
  return locked([&](Machine& m) {
    try {
      set(m, name, text);
      return 0;
    } catch (const std::invalid_argument& problem) {
      std::fprintf(stderr, "fake_cuda: %s\n", problem.what());
      return -1;
    }
  });
}

FAKE_CUDA_API void fake_cuda_clear_failures() {
  locked([](Machine& m) { m.book.clear_failures(); });
}

FAKE_CUDA_API uint64_t fake_cuda_calls(const char* kind) {
  return locked([&](Machine& m) {
    const std::optional<Call> call = call_of(kind);
    return call ? m.book.calls(*call) : kNothing;
  });
}

FAKE_CUDA_API uint64_t fake_cuda_failures(const char* kind) {
  return locked([&](Machine& m) {
    const std::optional<Call> call = call_of(kind);
    return call ? m.book.failures(*call) : kNothing;
  });
}

FAKE_CUDA_API uint64_t fake_cuda_host_time_ns() {
  return locked([](Machine& m) { return m.book.host_time_ns(); });
}

FAKE_CUDA_API uint64_t fake_cuda_host_waited_ns() {
  return locked([](Machine& m) { return m.book.host_waited_ns(); });
}

FAKE_CUDA_API uint64_t fake_cuda_stream_time_ns(void* stream) {
  return locked([&](Machine& m) { return m.order.done_ns(stream_of(m, stream, nullptr)); });
}

FAKE_CUDA_API uint64_t fake_cuda_stream_stalled_ns(void* stream) {
  return locked([&](Machine& m) { return stream_of(m, stream, nullptr).stalled_ns; });
}

FAKE_CUDA_API size_t fake_cuda_used_bytes(int device) {
  return locked([&](Machine& m) { return m.memory(device).used_bytes(); });
}

FAKE_CUDA_API size_t fake_cuda_used_peak_bytes(int device) {
  return locked([&](Machine& m) { return m.memory(device).used_peak_bytes(); });
}

FAKE_CUDA_API size_t fake_cuda_live(const char* what) {
  return locked([&](Machine& m) { return live(m, what); });
}

FAKE_CUDA_API void fake_cuda_complete(void* stream) {
  locked([&](Machine& m) { m.order.complete(stream_of(m, stream, nullptr)); });
}

FAKE_CUDA_API void fake_cuda_settle(void* stream) {
  const Works works = locked([&](Machine& m) -> Works {
    if (m.remote.is_empty()) return {};
    return m.remote.before(m.order.entered(stream_of(m, stream, nullptr)));
  });
  for (const auto& work : works) work->wait();
}

FAKE_CUDA_API int fake_cuda_capture_work(void* stream, void (*work)(void*), void (*drop)(void*),
                                         void* data) {
  return locked([&](Machine& m) {
    const Stream& captured = stream_of(m, stream, nullptr);
    Capture* const capture = m.captures.of(captured);
    if (!capture) return 0;
    if (work) {
      capture->graph->nodes.push_back({.call = Call::kLaunch,
                                       .name = "work of the host's",
                                       .stream = captured.id,
                                       .work = work,
                                       .data = std::shared_ptr<void>(data, drop)});
    }
    return 1;
  });
}

FAKE_CUDA_API size_t fake_cuda_count(const char* list) {
  return locked([&](Machine& m) -> size_t {
    const std::string_view name = list;
    if (name == "races") return m.races.races().size();
    if (name == "misuses") return m.misuses.size();
    if (name == "log") return m.log.entries().size();
    return kNothing;
  });
}

FAKE_CUDA_API void fake_cuda_entry(const char* list, size_t index, char* text, size_t room) {
  if (room == 0) return;
  const std::string entry = locked([&](Machine& m) { return text_of(m, list, index); });
  std::snprintf(text, room, "%s", entry.c_str());
}

FAKE_CUDA_API void fake_cuda_forget(const char* list) {
  locked([&](Machine& m) {
    const std::string_view name = list;
    if (name == "races") m.races.forget_races();
    if (name == "misuses") m.misuses.clear();
  });
}

FAKE_CUDA_API void fake_cuda_range_allocated(const void* start, size_t bytes, void* stream) {
  run(Call::kOther, __func__, [&](Machine& m) {
    const Stream& owner = stream_of(m, stream, start);
    m.races.allocated(reinterpret_cast<uintptr_t>(start), bytes, owner.id, owner.operation_tick);
    return Error::kSuccess;
  });
}

FAKE_CUDA_API void fake_cuda_range_shared(const void* start, void* stream) {
  run(Call::kOther, __func__, [&](Machine& m) {
    const Stream& user = stream_of(m, stream, start);
    m.races.shared(reinterpret_cast<uintptr_t>(start), user.id);
    return Error::kSuccess;
  });
}

FAKE_CUDA_API void fake_cuda_range_used(const void* start, size_t bytes, void* stream) {
  declare_use(__func__, start, bytes, stream, false);
}

FAKE_CUDA_API void fake_cuda_range_written(const void* start, size_t bytes, void* stream) {
  declare_use(__func__, start, bytes, stream, true);
}

FAKE_CUDA_API void fake_cuda_range_freed(const void* start) {
  run(Call::kOther, __func__, [&](Machine& m) {
    m.races.freed(reinterpret_cast<uintptr_t>(start), m.order.newest());
    return Error::kSuccess;
  });
}

}  // namespace tidepool::fake_cuda
