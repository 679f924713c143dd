#include "remat/simulate/job/work_log.h"

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "fmt/format.h"

namespace tidepool::remat {

WorkLog::WorkLog(const std::string& path, bool has_blocks)
    : file_(std::fopen(path.c_str(), "we")), has_blocks_(has_blocks) {
  if (file_ == nullptr) {
    throw std::runtime_error(fmt::format("{}: {}", path, std::generic_category().message(errno)));
  }
  std::setvbuf(file_.get(), nullptr, has_blocks ? _IOFBF : _IOLBF, BUFSIZ);
}

void WorkLog::write(const char* what, uint32_t storage, size_t offset) {
  const std::string number = storage == kUnknown ? "?" : fmt::format("{}", storage);
  std::fputs(fmt::format("{} {} {} {}\n", call_, what, number, offset).c_str(), file_.get());
}

void WorkLog::replayed(uint32_t call) {
  const std::string number = call == kUnknown ? "?" : fmt::format("{}", call);
  std::fputs(fmt::format("{} replay {}\n", call_, number).c_str(), file_.get());
}

void WorkLog::copied(size_t bytes) {
  std::fputs(fmt::format("{} copy {}\n", call_, bytes).c_str(), file_.get());
}

void WorkLog::begin_iteration(uint32_t iteration) {
  call_ = 0;
  std::fputs(fmt::format("iteration {}\n", iteration).c_str(), file_.get());
}

void WorkLog::allocated(size_t offset, size_t bytes) {
  std::fputs(fmt::format("{} allocate {} {}\n", call_, offset, bytes).c_str(), file_.get());
}

void WorkLog::freed(size_t offset) {
  std::fputs(fmt::format("{} free {}\n", call_, offset).c_str(), file_.get());
}

void WorkLog::held(size_t bytes) {
  std::fputs(fmt::format("{} hold {}\n", call_, bytes).c_str(), file_.get());
}

void WorkLog::mapped(size_t offset, size_t bytes, bool usable) {
  std::fputs(fmt::format("{} {} {} {}\n", call_, usable ? "map" : "unmap", offset, bytes).c_str(),
             file_.get());
}

}  // namespace tidepool::remat
