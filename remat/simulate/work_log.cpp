#include "remat/simulate/work_log.h"

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "fmt/format.h"

namespace tidepool::plan {

WorkLog::WorkLog(const std::string& path) : file_(std::fopen(path.c_str(), "we")) {
  if (file_ == nullptr) {
    throw std::runtime_error(fmt::format("{}: {}", path, std::generic_category().message(errno)));
  }
  std::setvbuf(file_.get(), nullptr, _IOLBF, BUFSIZ);
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

}  // namespace tidepool::plan
