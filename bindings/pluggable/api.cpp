#include "bindings/pluggable/api.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include "allocator/base/check.h"
#include "allocator/base/sizes.h"
#include "bindings/pluggable/pluggable_allocator.h"

namespace {

using tidepool::human_bytes;
using tidepool::OutOfMemory;
using tidepool::OutOfMemoryReport;
using tidepool::device::driver::Stream;
using tidepool::pluggable::PluggableAllocator;

// One write, so that lines of several threads do not mix.
void say(const std::string& text) {
  std::string line = "tidepool: " + text;
  for (char& c : line) {
    if (c == '\n') c = ' ';
  }
  std::fprintf(stderr, "%s\n", line.c_str());
}

std::string describe(const OutOfMemoryReport& report, int device) {
  return fmt::format(
      "out of memory on cuda:{}: {} asked for, budget {}, of which {} are held and {} allocated; "
      "the largest request that could be served is {}",
      device, human_bytes(report.requested_bytes), human_bytes(report.budget_bytes),
      human_bytes(report.committed_bytes), human_bytes(report.allocated_bytes),
      human_bytes(report.largest_servable_bytes));
}

// What `call` returns, or `failed` and a line on stderr.
template <class Result, class Call>
Result guarded(Result failed, int device, Call&& call) noexcept {
  try {
    return call();
  } catch (const OutOfMemory& error) {
    say(describe(error.report(), device));
  } catch (const std::exception& error) {
    say(error.what());
  }
  return failed;
}

template <class Call>
void guarded(Call&& call) noexcept {
  (void)guarded(false, 0, [&] {
    call();
    return true;
  });
}

PluggableAllocator& allocator() { return PluggableAllocator::instance(); }
Stream handle(CUstream_st* stream) { return reinterpret_cast<Stream>(stream); }

}  // namespace

void* tidepool_malloc(ssize_t size, int device, CUstream_st* stream) {
  if (size == 0) return nullptr;
  return guarded<void*>(nullptr, device, [&] {
    // A negative size is more than any budget.
    return allocator().allocate(static_cast<size_t>(size), device, handle(stream));
  });
}

void* tidepool_malloc_or_throw(ssize_t size, int device, CUstream_st* stream) {
  if (size == 0) return nullptr;
  try {
    return allocator().allocate(static_cast<size_t>(size), device, handle(stream));
  } catch (const OutOfMemory& error) {
    throw std::runtime_error("tidepool: " + describe(error.report(), device));
  }
}

void tidepool_free(void* address, ssize_t size, int device, CUstream_st* stream) {
  if (address == nullptr) return;
  guarded([&] { allocator().free(address, static_cast<size_t>(size), device, handle(stream)); });
}

void tidepool_init(int device_count) {
  // Devices are set up by their first request: PyTorch calls this before the budget may be known.
  TIDEPOOL_CHECK(device_count >= 0, "%d devices", device_count);
}

void tidepool_reset() {
  guarded([] { allocator().reset(); });
}

void tidepool_memory_fraction(double fraction, int device) {
  guarded([&] { allocator().set_memory_fraction(fraction, device); });
}

void* tidepool_base_alloc(void* address, size_t* size) {
  const size_t bytes = guarded<size_t>(0, 0, [&] { return allocator().block_bytes(address); });
  if (size != nullptr) *size = bytes;
  return bytes > 0 ? address : nullptr;
}

void tidepool_record_stream(void* address, CUstream_st* stream) {
  if (address == nullptr) return;
  guarded([&] { allocator().record_stream(address, handle(stream)); });
}

void tidepool_begin_allocate_to_pool(int device, TidepoolPoolId pool, TidepoolStreamFilter filter) {
  guarded([&] {
    allocator().pools(device).begin(pool, [filter = std::move(filter)](Stream stream) {
      return filter(reinterpret_cast<CUstream_st*>(stream));
    });
  });
}

void tidepool_end_allocate_to_pool(int device, TidepoolPoolId pool) {
  guarded([&] { allocator().pools(device).end(pool); });
}

void tidepool_release_pool(int device, TidepoolPoolId pool) {
  guarded([&] { allocator().pools(device).release(pool); });
}

int tidepool_set_budget(const char* size) {
  return guarded(1, 0, [&] {
    allocator().set_budget(size);
    return 0;
  });
}

size_t tidepool_statistic(int device, const char* name) {
  return guarded<size_t>(0, device, [&] { return allocator().statistic(device, name); });
}
