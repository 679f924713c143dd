// What a GPU's driver charges for the calls that Tidepool's CUDA allocator is built on: virtual
// memory by size of handle, plain allocations, events; each on an idle device and with at least two
// milliseconds of work in flight on another stream. Prints lines of JSON: {"name", "unit",
// "samples"} or {"fact", "value"}.
//
//   tidepool_gpu_prices [--device N] [--smoke] [prices | waits | wall]
//
//   prices  every call's time on the host
//   waits   whether unmapping waits for work that uses the mapping. Such work may fail by that, and
//           take the process's context with it: run it last, in a process of its own
//   wall    how many mappings the device takes
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "allocator/base/sizes.h"
#include "allocator/space/address_space.h"
#include "cuda/driver/driver.h"
#include "cuda/driver/driver_library.h"

namespace tidepool::device {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Options {
  int ordinal = 0;
  bool smoke = false;
  std::string part = "prices";
};

void print_fact(const std::string& name, double value) {
  fmt::print("{{\"fact\": \"{}\", \"value\": {}}}\n", name, value);
  std::fflush(stdout);
}

// Times of one call under one name.
class Samples {
 public:
  explicit Samples(std::string name) : name_(std::move(name)) {}
  Samples(const Samples&) = delete;
  Samples& operator=(const Samples&) = delete;
  ~Samples() {
    if (times_.empty()) return;
    fmt::print("{{\"name\": \"{}\", \"unit\": \"us\", \"samples\": [{:.3f}]}}\n", name_,
               fmt::join(times_, ", "));
    std::fflush(stdout);
  }
  template <class Call>
  void time(Call&& call) {
    const Clock::time_point start = Clock::now();
    call();
    times_.push_back(microseconds_since(start));
  }

 private:
  std::string name_;
  std::vector<double> times_;
};

// The calls that are priced, on one device, with errors as exceptions.
class Device {
 public:
  Device(int ordinal, bool smoke)
      : driver_(DriverLibrary::instance().functions(), ordinal), scope_(driver_), smoke_(smoke) {
    properties_.location.id = ordinal;
    access_.location.id = ordinal;
    check(call().StreamCreate(&busy_, driver::kStreamNonBlocking), "cuStreamCreate");
    check(call().MemAlloc(&scratch_, scratch_bytes()), "cuMemAlloc");
  }
  ~Device() {
    (void)call().CtxSynchronize();
    (void)call().MemFree(scratch_);
    (void)call().StreamDestroy(busy_);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DriverFunctions& call() const { return driver_.call(); }
  void check(driver::Result result, const char* what) const { driver_.check(result, what); }
  Driver& driver() { return driver_; }
  driver::Stream busy() const { return busy_; }

  // Gives the busy stream work for about `milliseconds` on memory of its own.
  void work(double milliseconds) { work_on(scratch_, scratch_bytes(), milliseconds); }
  void work_on(driver::DevicePointer start, size_t bytes, double milliseconds) {
    const double once = static_cast<double>(bytes) / kFillBytesPerMillisecond;
    for (double done = 0; done < milliseconds; done += once) {
      check(call().MemsetD8Async(start, 1, bytes, busy_), "cuMemsetD8Async");
    }
  }
  void finish() { check(call().CtxSynchronize(), "cuCtxSynchronize"); }

  driver::DevicePointer reserve(size_t bytes) {
    driver::DevicePointer start = 0;
    check(call().MemAddressReserve(&start, bytes, 0, 0, 0), "cuMemAddressReserve");
    return start;
  }
  void release_range(driver::DevicePointer start, size_t bytes) {
    check(call().MemAddressFree(start, bytes), "cuMemAddressFree");
  }
  driver::AllocationHandle create(size_t bytes) {
    driver::AllocationHandle handle = 0;
    check(call().MemCreate(&handle, bytes, &properties_, 0), "cuMemCreate");
    return handle;
  }
  void map(driver::DevicePointer start, size_t bytes, driver::AllocationHandle handle) {
    check(call().MemMap(start, bytes, 0, handle, 0), "cuMemMap");
  }
  void open(driver::DevicePointer start, size_t bytes) {
    check(call().MemSetAccess(start, bytes, &access_, 1), "cuMemSetAccess");
  }
  void unmap(driver::DevicePointer start, size_t bytes) {
    check(call().MemUnmap(start, bytes), "cuMemUnmap");
  }
  void release(driver::AllocationHandle handle) {
    check(call().MemRelease(handle), "cuMemRelease");
  }

 private:
  // A guess that only has to be of the right size: HBM of recent devices.
  static constexpr double kFillBytesPerMillisecond = 2e9;
  size_t scratch_bytes() const { return smoke_ ? kMiB : 256 * kMiB; }

  Driver driver_;
  Driver::Scope scope_;
  bool smoke_;
  driver::AllocationProperties properties_;
  driver::AccessDescription access_;
  driver::Stream busy_ = nullptr;
  driver::DevicePointer scratch_ = 0;
};

// Handles of `bytes`: created, mapped next to each other, opened, unmapped, released.
void price_handles(Device& device, size_t bytes, size_t count, double work_milliseconds,
                   const std::string& state) {
  const std::string suffix = fmt::format(" of {}, {}", human_bytes(bytes), state);
  Samples create("cuMemCreate" + suffix), map("cuMemMap" + suffix), open("cuMemSetAccess" + suffix);
  Samples unmap("cuMemUnmap" + suffix), release("cuMemRelease" + suffix);
  Samples open_run(fmt::format("cuMemSetAccess of {} handles{}", count, suffix));
  Samples unmap_run(fmt::format("cuMemUnmap of {} handles{}", count, suffix));
  const driver::DevicePointer range = device.reserve(count * bytes);
  std::vector<driver::AllocationHandle> handles(count);
  auto time = [&](Samples& samples, auto&& call) {
    device.work(work_milliseconds);
    samples.time(call);
  };
  auto place = [&](size_t i) { return range + i * bytes; };

  for (auto& handle : handles) time(create, [&] { handle = device.create(bytes); });
  for (bool whole : {false, true}) {
    for (size_t i = 0; i < count; ++i) time(map, [&] { device.map(place(i), bytes, handles[i]); });
    if (whole) {
      time(open_run, [&] { device.open(range, count * bytes); });
      time(unmap_run, [&] { device.unmap(range, count * bytes); });
      continue;
    }
    for (size_t i = 0; i < count; ++i) time(open, [&] { device.open(place(i), bytes); });
    for (size_t i = 0; i < count; ++i) time(unmap, [&] { device.unmap(place(i), bytes); });
  }
  for (auto handle : handles) time(release, [&] { device.release(handle); });
  device.finish();
  device.release_range(range, count * bytes);
}

void price_allocations(Device& device, size_t bytes, size_t count, double work_milliseconds,
                       const std::string& state) {
  const std::string suffix = fmt::format(" of {}, {}", human_bytes(bytes), state);
  Samples allocate("cuMemAlloc" + suffix), free("cuMemFree" + suffix);
  std::vector<driver::DevicePointer> all(count);
  for (auto& each : all) {
    device.work(work_milliseconds);
    allocate.time([&] { device.check(device.call().MemAlloc(&each, bytes), "cuMemAlloc"); });
    device.finish();
  }
  for (auto each : all) {
    device.work(work_milliseconds);
    free.time([&] { device.check(device.call().MemFree(each), "cuMemFree"); });
    device.finish();
  }
}

void price_events(Device& device, size_t count, double work_milliseconds,
                  const std::string& state) {
  const DriverFunctions& call = device.call();
  Samples create("cuEventCreate, " + state), record("cuEventRecord, " + state);
  Samples query("cuEventQuery, " + state), wait("cuStreamWaitEvent, " + state);
  Samples scope("cuCtxPushCurrent and cuCtxPopCurrent, " + state);
  std::vector<driver::Event> events(count);
  for (auto& event : events) {
    device.work(work_milliseconds);
    create.time([&] {
      device.check(call.EventCreate(&event, driver::kEventDisableTiming), "cuEventCreate");
    });
    record.time([&] { device.check(call.EventRecord(event, device.busy()), "cuEventRecord"); });
    query.time([&] { (void)call.EventQuery(event); });
    wait.time([&] { device.check(call.StreamWaitEvent(nullptr, event, 0), "cuStreamWaitEvent"); });
    scope.time([&] { Driver::Scope inner(device.driver()); });
  }
  device.finish();
  for (auto event : events) device.check(call.EventDestroy(event), "cuEventDestroy");
}

// What the runtime charges for the question that PyTorch asks before every request.
void price_runtime(size_t count) {
  void* library = dlopen("libcudart.so.13", RTLD_NOW);
  if (library == nullptr) library = dlopen("libcudart.so.12", RTLD_NOW);
  if (library == nullptr) return;
  const auto get = reinterpret_cast<int (*)(int*)>(dlsym(library, "cudaGetDevice"));
  if (get == nullptr) return;
  constexpr size_t kCalls = 1000;
  Samples samples("cudaGetDevice, 1000 calls");
  for (size_t i = 0; i < count; ++i) {
    samples.time([&] {
      for (size_t call = 0; call < kCalls; ++call) {
        int ordinal = 0;
        (void)get(&ordinal);
      }
    });
  }
}

void run_prices(Device& device, bool smoke) {
  const double busy = smoke ? 0.01 : 2;
  using State = std::pair<const char*, double>;
  for (const auto& [state, work] : {State{"idle", 0}, State{"with work in flight", busy}}) {
    for (size_t mebibytes : {2, 20, 64, 512}) {
      if (smoke && mebibytes > 20) break;
      const size_t count = smoke ? 2 : mebibytes <= 20 ? 64 : mebibytes == 64 ? 32 : 8;
      price_handles(device, mebibytes * kMiB, count, work, state);
      price_allocations(device, mebibytes * kMiB, smoke ? 2 : 8, work, state);
    }
    price_events(device, smoke ? 4 : 1000, work, state);
  }
  price_runtime(smoke ? 1 : 20);
  Samples reserve("cuMemAddressReserve of 1 TiB, idle"), free("cuMemAddressFree of 1 TiB, idle");
  for (int i = 0; i < (smoke ? 1 : 20); ++i) {
    driver::DevicePointer start = 0;
    reserve.time([&] { start = device.reserve(1024 * kGiB); });
    free.time([&] { device.release_range(start, 1024 * kGiB); });
  }
}

// How long unmapping takes while a stream fills the mapping, and whether that work was over then.
void run_waits(Device& device, bool smoke) {
  const size_t bytes = smoke ? 2 * kMiB : 256 * kMiB;
  const driver::DevicePointer range = device.reserve(bytes);
  const driver::AllocationHandle handle = device.create(bytes);
  driver::Event done = nullptr;
  device.check(device.call().EventCreate(&done, 0), "cuEventCreate");
  device.map(range, bytes, handle);
  device.open(range, bytes);
  const Clock::time_point start = Clock::now();
  device.work_on(range, bytes, smoke ? 0.01 : 100);
  device.check(device.call().EventRecord(done, device.busy()), "cuEventRecord");
  print_fact("ms until the work was enqueued", microseconds_since(start) / 1e3);
  device.unmap(range, bytes);
  print_fact("ms until the unmapping returned", microseconds_since(start) / 1e3);
  print_fact("the work was over when the unmapping returned",
             device.call().EventQuery(done) == driver::kSuccess);
  const driver::Result end = device.call().EventSynchronize(done);
  print_fact("ms until the work was over", microseconds_since(start) / 1e3);
  print_fact("error of the work, 0 for none", end);
  device.release(handle);
}

// One handle, mapped at as many addresses as the driver takes.
void run_wall(Device& device, bool smoke) {
  const size_t bytes = 2 * kMiB;
  const size_t most = smoke ? 1000 : 2'000'000;
  const driver::DevicePointer range = device.reserve(most * bytes);
  const driver::AllocationHandle handle = device.create(bytes);
  const Clock::time_point start = Clock::now();
  size_t mapped = 0;
  driver::Result result = driver::kSuccess;
  while (mapped < most && microseconds_since(start) < 120e6) {
    result = device.call().MemMap(range + mapped * bytes, bytes, 0, handle, 0);
    if (result != driver::kSuccess) break;
    ++mapped;
    if (mapped % 100'000 == 0) print_fact("mapped", static_cast<double>(mapped));
  }
  print_fact("mappings", static_cast<double>(mapped));
  print_fact("error at the next one, 0 for none", result);
  print_fact("us for each, all together", microseconds_since(start) / static_cast<double>(mapped));
}

Options parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--smoke") {
      options.smoke = true;
    } else if (argument == "--device" && i + 1 < count) {
      options.ordinal = std::atoi(arguments[++i]);
    } else if (argument == "prices" || argument == "waits" || argument == "wall") {
      options.part = argument;
    } else {
      fmt::print(stderr, "'{}': expected --device N, --smoke, prices, waits or wall\n", argument);
      std::exit(2);
    }
  }
  return options;
}

}  // namespace
}  // namespace tidepool::device

int main(int count, char** arguments) {
  using namespace tidepool::device;
  const Options options = parse(count, arguments);
  try {
    Device device(options.ordinal, options.smoke);
    if (options.part == "prices") run_prices(device, options.smoke);
    if (options.part == "waits") run_waits(device, options.smoke);
    if (options.part == "wall") run_wall(device, options.smoke);
  } catch (const tidepool::DeviceError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
