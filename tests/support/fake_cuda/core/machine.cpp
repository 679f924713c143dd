#include "tests/support/fake_cuda/core/machine.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace tidepool::fake_cuda {
namespace {

std::vector<std::unique_ptr<PhysicalMemory>> make_devices(const Settings& settings) {
  std::vector<std::unique_ptr<PhysicalMemory>> devices;
  for (int device = 0; device < settings.devices; ++device) {
    devices.push_back(std::make_unique<PhysicalMemory>(device, settings.memory_of(device)));
  }
  return devices;
}

// Leaked on purpose: a job may call CUDA while its statics are being destroyed.
std::atomic<Machine*> the_machine = nullptr;
std::mutex making;

}  // namespace

Machine::Machine(Settings wanted)
    : devices_(make_devices(wanted)),
      settings(std::move(wanted)),
      allocations(devices_),
      virtual_memory(devices_, settings),
      order(settings, book),
      log(settings.log_entries),
      links_(devices_.size()),
      others_(settings.outside_seed) {
  for (const FailureRule& rule : settings.failures) book.fail(rule);
  for (const Price& price : settings.prices) book.set_price(price);
}

void Machine::change_outside() {
  size_t bytes = settings.outside_bytes;
  if (const uint64_t every = settings.outside_changes_every; every > 0) {
    if (others_() % every != 0) return;
    bytes = others_() % (bytes + 1);
  }
  for (const auto& memory : devices_) memory->set_outside(bytes);
}

void Machine::note(LogEntry entry) {
  const LogEntry& added = log.add(std::move(entry));
  if (settings.log_to_stderr) std::fprintf(stderr, "fake_cuda: %s\n", describe(added).c_str());
}

void Machine::check_may_enqueue(const Stream& stream) {
  if (stream.is_legacy) {
    for (const StreamId id : captures.blocking_streams(stream.device)) {
      throw Refusal(Error::kCaptureImplicit,
                    fmt::format("stream {} is capturing", static_cast<uint32_t>(id)));
    }
  }
  captures.check_not_spoiled(stream);
}

void Machine::operate(Stream& stream, Call call, const char* name, uint64_t device_ns,
                      Order::Engine* engine) {
  check_may_enqueue(stream);
  await(stream);
  enqueue(stream, call, name, device_ns, engine);
}

void Machine::enqueue(Stream& stream, Call call, const char* name, uint64_t device_ns,
                      Order::Engine* engine) {
  order.advance(stream, book.device_price_ns(call) + device_ns, engine);
  captures.on_operation(stream, call, name);
  races.operation(stream.id, stream.clock);
  note({.call = call, .name = name, .stream = stream.id, .tick = stream.operation_tick});
}

int Machine::device_of(const void* address) const {
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  if (const auto place = allocations.find(at)) return place->device;
  if (const auto place = virtual_memory.find(at)) return place->device;
  return -1;
}

bool Machine::check_accessible(const void* start, size_t bytes, bool writes, int device) const {
  constexpr uintptr_t kNullPage = 4096;
  const uintptr_t first = reinterpret_cast<uintptr_t>(start);
  if (first < kNullPage) throw Refusal(Error::kInvalidValue, fmt::format("{:#x}", first));
  uintptr_t at = first;
  const uintptr_t end = at + bytes;
  if (const auto place = allocations.find(at)) {
    if (end > place->start + place->bytes) {
      throw Refusal(Error::kInvalidValue,
                    fmt::format("{} bytes at {:#x} leave their allocation", bytes, at));
    }
    return true;
  }
  bool is_device = false;
  while (at < end) {
    const auto place = virtual_memory.find(at, device);
    if (!place && !is_device) {
      if (virtual_memory.is_reserved(at)) {
        throw Refusal(Error::kIllegalAddress, fmt::format("nothing is mapped at {:#x}", at));
      }
      return false;
    }
    is_device = true;
    if (!place || !(writes ? place->can_write : place->can_read)) {
      throw Refusal(Error::kIllegalAddress,
                    fmt::format("{:#x}, of {} bytes at {:#x}, is not {} for device {}", at, bytes,
                                first, place ? "accessible" : "mapped", device));
    }
    at = place->start + place->bytes;
  }
  return is_device;
}

void Machine::use(uintptr_t address, size_t bytes, bool writes, const Stream& stream) {
  using Use = RaceChecker::Use;
  const Use use = captures.of(stream) ? Use::kCaptured : writes ? Use::kWritten : Use::kRead;
  races.used(address, bytes, use, stream.id, stream.operation_tick, stream.clock);
}

void Machine::copy(void* to, const void* from, size_t bytes, Ends ends, Stream& stream,
                   const char* name) {
  const bool to_device = check_accessible(to, bytes, true, ends.to);
  const bool from_device = check_accessible(from, bytes, false, ends.from);
  Order::Engine* engine = nullptr;
  if (to_device && (!from_device || ends.to != ends.from)) {
    engine = &links_.at(static_cast<size_t>(ends.to)).to_device;
  } else if (from_device && !to_device) {
    engine = &links_.at(static_cast<size_t>(ends.from)).to_host;
  }
  const Speeds& speeds = settings.speeds;
  operate(stream, Call::kCopy, name,
          time_ns(bytes, engine ? speeds.link_bytes : speeds.memory_bytes), engine);
  const uintptr_t to_address = reinterpret_cast<uintptr_t>(to);
  const uintptr_t from_address = reinterpret_cast<uintptr_t>(from);
  use(from_address, bytes, false, stream);
  use(to_address, bytes, true, stream);
  note({.call = Call::kCopy,
        .name = "operands",
        .stream = stream.id,
        .tick = stream.operation_tick,
        .address = to_address,
        .source = from_address,
        .bytes = bytes});
  if (bytes == 0 || captures.of(stream)) return;
  if (settings.touch_memory || (!to_device && !from_device)) {
    std::memmove(to, from, bytes);
  } else if (!to_device) {
    std::memset(to, 0, bytes);
  }
}

void Machine::fill(void* to, uint32_t value, size_t element_bytes, size_t count, Stream& stream,
                   const char* name) {
  if (count == 0) return;
  const size_t bytes = element_bytes * count;
  check_accessible(to, bytes, true, stream.device);
  operate(stream, Call::kFill, name, time_ns(bytes, settings.speeds.memory_bytes));
  const uintptr_t address = reinterpret_cast<uintptr_t>(to);
  use(address, bytes, true, stream);
  note({.call = Call::kFill,
        .name = "operand",
        .stream = stream.id,
        .tick = stream.operation_tick,
        .address = address,
        .bytes = bytes});
  if (captures.of(stream) || !settings.touch_memory) return;
  if (element_bytes == 1) {
    std::memset(to, static_cast<int>(value), count);
    return;
  }
  auto* const bytes_of = static_cast<unsigned char*>(to);
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(bytes_of + i * element_bytes, &value, element_bytes);
  }
}

void Machine::launch(Stream& stream, const char* kernel, uint64_t threads) {
  operate(stream, Call::kLaunch, kernel, time_ns(threads, settings.speeds.threads));
}

Works Machine::launch_remote(Stream& stream, const char* name, std::shared_ptr<RemoteWork> work) {
  check_may_enqueue(stream);
  Works earlier = remote.before(order.entered(stream));
  enqueue(stream, Call::kLaunch, name, 0, nullptr);
  remote.add(std::move(work), stream.id, stream.operation_tick);
  return earlier;
}

void Machine::launch_graph(const Graph& graph, Stream& stream, const char* name) {
  operate(stream, Call::kGraphLaunch, name);
  for (const StreamId captured : graph.streams) {
    races.replayed(captured, stream.id, stream.operation_tick);
  }
}

void Machine::record(Event& event, Stream& stream) {
  captures.check_not_spoiled(stream);
  order.record(event, stream);
  note({.call = Call::kEventRecord,
        .name = "record",
        .stream = stream.id,
        .tick = stream.operation_tick,
        .event = event.id});
}

void Machine::wait(Stream& stream, const Event& event, bool is_external) {
  captures.on_wait(stream, event, is_external);
  order.wait(stream, event);
  note({.call = Call::kStreamWait,
        .name = "wait",
        .stream = stream.id,
        .tick = stream.operation_tick,
        .event = event.id});
}

void Machine::await(const VectorClock& clock) {
  Works works = remote.before(clock);
  if (!works.empty()) throw Unfinished{std::move(works)};
}

void Machine::await(Stream& stream) {
  if (!remote.is_empty()) await(order.entered(stream));
}

void Machine::await_device(int device) {
  if (!remote.is_empty()) await(order.newest(device));
}

bool Machine::poll(Event& event) {
  const bool waits = !remote.is_empty() && event.is_recorded;
  return !(waits && !remote.before(event.clock).empty()) && order.poll(event);
}

bool Machine::poll(Stream& stream) {
  const bool waits = !remote.is_empty();
  return !(waits && !remote.before(order.entered(stream)).empty()) && order.poll(stream);
}

void Machine::synchronize(const Event& event) {
  if (event.is_recorded) await(event.clock);
  order.synchronize(event);
}

void Machine::synchronize(Stream& stream) {
  await(stream);
  order.synchronize(stream);
}

void Machine::synchronize_device(int device) {
  await_device(device);
  order.synchronize_device(device);
}

void Machine::returned(uintptr_t address, size_t bytes) {
  races.returned(address, bytes, order.newest(), order.host());
}

Machine& machine() {
  if (Machine* there = the_machine.load(std::memory_order_acquire)) return *there;
  std::lock_guard lock(making);
  if (Machine* there = the_machine.load()) return *there;
  try {
    the_machine = new Machine(settings_from_environment());
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "fake_cuda: %s\n", problem.what());
    std::_Exit(2);
  }
  return *the_machine.load();
}

Machine* made_machine() { return the_machine.load(std::memory_order_acquire); }

Machine& reset(const Settings& settings) {
  std::lock_guard lock(making);
  delete the_machine.exchange(nullptr);
  the_machine = new Machine(settings);
  return *the_machine.load();
}

CaptureMode& current_capture_mode() {
  static thread_local CaptureMode mode = CaptureMode::kGlobal;
  return mode;
}

namespace {

// A call that a driver would not let in is a misuse, except where the process ends or was forked:
// that is nobody's fault, and a forked child must not wait for a lock.
Error denied(const char* function, Error error) {
  if (error != Error::kInvalidContext && error != Error::kNotInitialized) return error;
  Machine& here = machine();
  const std::unique_lock lock(here.mutex, std::try_to_lock);
  if (lock) here.misuses.push_back({function, error, "not admitted"});
  return error;
}

// Runs the body, again and again where it finds work unfinished.
Error run_to_end(Machine& here, std::unique_lock<std::mutex>& lock,
                 const std::function<Error(Machine&)>& body) {
  while (true) {
    try {
      return body(here);
    } catch (const Unfinished& unfinished) {
      lock.unlock();
      bool failed = false;
      for (const auto& work : unfinished.works) {
        failed |= work->wait() == RemoteWork::State::kFailed;
      }
      lock.lock();
      if (failed) return Error::kLaunchFailed;
    }
  }
}

Error run(Call call, const char* function, bool is_unsafe,
          const std::function<Error(Machine&)>& body) {
  if (const Error error = admit(function); error != Error::kSuccess) return denied(function, error);
  Machine& here = machine();
  std::unique_lock lock(here.mutex);
  const bool is_of_cuda = std::string_view(function).starts_with("cu");
  if (is_of_cuda && here.broken != Error::kSuccess) return here.broken;
  Error error = here.book.begin(call);
  here.change_outside();
  const size_t races_before = here.races.races().size();
  if (error == Error::kSuccess) {
    try {
      if (is_unsafe) here.captures.check_unsafe(current_capture_mode(), function);
      error = run_to_end(here, lock, body);
    } catch (const Refusal& refusal) {
      error = refusal.error;
      if (error != Error::kOutOfMemory && error != Error::kNotSupported) {
        here.misuses.push_back({function, error, refusal.what()});
      }
      if (here.settings.log_to_stderr) {
        std::fprintf(stderr, "fake_cuda: %s: %s: %s\n", function, driver_name(error),
                     refusal.what());
      }
    }
  }
  if (is_of_cuda && is_sticky(error)) here.broken = error;
  if (here.settings.races_are_fatal && here.races.races().size() > races_before) {
    std::fprintf(stderr, "fake_cuda: race in %s: %s\n", function,
                 describe(here.races.races().back()).c_str());
    std::abort();
  }
  return error;
}

}  // namespace

Error run(Call call, const char* function, const std::function<Error(Machine&)>& body) {
  return run(call, function, false, body);
}

Error run_unsafe(Call call, const char* function, const std::function<Error(Machine&)>& body) {
  return run(call, function, true, body);
}

}  // namespace tidepool::fake_cuda
