#include "tests/support/fake_cuda/core/shared_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

#include "tests/support/fake_cuda/core/error.h"

namespace tidepool::fake_cuda {

std::string ticket_of(const Extent& extent) {
  return fmt::format("fc {} {} {} {:x} {:x}", getpid(), extent.file, extent.device, extent.offset,
                     extent.bytes);
}

Extent open_ticket(const std::string& ticket) {
  Extent extent;
  int process = 0;
  int file = 0;
  if (std::sscanf(ticket.c_str(), "fc %d %d %d %lx %zx", &process, &file, &extent.device,
                  &extent.offset, &extent.bytes) != 5) {
    throw Refusal(Error::kInvalidValue, fmt::format("'{}' is no ticket", ticket));
  }
  const std::string path = fmt::format("/proc/{}/fd/{}", process, file);
  extent.file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (extent.file < 0) throw Refusal(Error::kInvalidValue, fmt::format("{} is gone", path));
  return extent;
}

int write_shared_file(const Extent& extent) {
  const std::string ticket = ticket_of(extent);
  const int file = memfd_create("fake_cuda_ticket", MFD_CLOEXEC);
  if (file < 0) throw Refusal(Error::kOutOfMemory, "no file left");
  if (write(file, ticket.data(), ticket.size()) != static_cast<ssize_t>(ticket.size())) {
    close(file);
    throw Refusal(Error::kOutOfMemory, "no room for a ticket");
  }
  return file;
}

Extent open_shared_file(int file) {
  char text[64] = {};
  if (pread(file, text, sizeof text - 1, 0) <= 0) {
    throw Refusal(Error::kInvalidValue, fmt::format("file {} is no ticket", file));
  }
  return open_ticket(text);
}

}  // namespace tidepool::fake_cuda
