#include "bindings/cpp/output_files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace tidepool::cpp {
namespace {

namespace fs = std::filesystem;

std::string process_id() { return std::to_string(getpid()); }

// The variable's value, which becomes `otherwise` if there is none, so that children know the job.
std::string owner(const char* variable, const std::string& otherwise) {
  setenv(variable, otherwise.c_str(), 0);
  return std::getenv(variable);
}

// Whether there is something, and it is no empty file.
bool has_content(const fs::path& path) {
  std::error_code none;
  const bool is_empty = fs::is_regular_file(path, none) && fs::file_size(path, none) == 0;
  return fs::exists(path) && !is_empty;
}

// Whether a statistics file belongs to another process of this job, or to a job that runs.
// Throws: std::runtime_error if there is a file that has no statistics.
bool is_taken(const fs::path& path, const std::string& job) {
  if (!has_content(path)) return false;
  std::ifstream file(path);
  const nlohmann::json found = nlohmann::json::parse(file, nullptr, false);
  if (!found.is_object() || !found.contains("job") || !found.contains("pid")) {
    throw std::runtime_error("exists and is no statistics file");
  }
  const auto process = found.value("pid", 0);
  if (process == getpid()) return false;
  const bool is_alive = process > 0 && (kill(process, 0) == 0 || errno != ESRCH);
  return found.value("job", "") == job || (found.value("state", "") == "running" && is_alive);
}

// The first bytes of a file; of one that is compressed, of what it holds, if there is a zlib.
std::string start_of(const fs::path& path, size_t bytes) {
  std::string start(bytes, ' ');
  void* const library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto find = [&](const char* name) {
    return library != nullptr ? dlsym(library, name) : nullptr;
  };
  const auto open_file = reinterpret_cast<void* (*)(const char*, const char*)>(find("gzopen"));
  const auto read = reinterpret_cast<int (*)(void*, void*, unsigned)>(find("gzread"));
  const auto close_file = reinterpret_cast<int (*)(void*)>(find("gzclose"));
  if (open_file == nullptr || read == nullptr || close_file == nullptr) {
    std::ifstream file(path, std::ios::binary);
    file.read(start.data(), static_cast<std::streamsize>(bytes));
    start.resize(static_cast<size_t>(file.gcount()));
    return start;
  }
  void* const file = open_file(path.c_str(), "rb");
  const int found = file != nullptr ? read(file, start.data(), static_cast<unsigned>(bytes)) : -1;
  if (file != nullptr) close_file(file);
  if (found < 0) return "?";  // it is damaged, and shows nothing
  start.resize(static_cast<size_t>(found));
  return start;
}

// Throws: std::runtime_error if there is a file that is no trace.
void refuse_other_than_trace(const fs::path& path) {
  if (!has_content(path)) return;
  constexpr std::string_view kStart = "{\"tidepool_trace\"";
  const std::string start = start_of(path, kStart.size());
  if (!start.empty() && start != kStart) throw std::runtime_error("exists and is no trace");
}

// Holds a lock on a folder, where its file system has locks.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : descriptor_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (descriptor_ < 0) {
      throw std::runtime_error("cannot write there: " + std::string(std::strerror(errno)));
    }
    flock(descriptor_, LOCK_EX);
  }
  ~FolderLock() { close(descriptor_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace

StatsFile::StatsFile(const std::string& path)
    : path_(fs::absolute(path)), job_(owner("TIDEPOOL_STATS_OWNER", process_id() + "-program")) {
  const fs::path given = path_;
  const FolderLock lock(given.parent_path());
  if (is_taken(given, job_)) {
    path_ = given.parent_path() /
            (given.stem().string() + "." + process_id() + given.extension().string());
  }
  write({{"state", "running"}});
}

void StatsFile::write(nlohmann::json content) const {
  content["job"] = job_;
  content["pid"] = getpid();
  const fs::path path = path_;
  const fs::path temporary =
      path.parent_path() / ("." + path.filename().string() + "." + process_id());
  std::ofstream file(temporary);
  file << content.dump(2) << "\n";
  file.close();
  if (file.fail() || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string reason = std::strerror(errno);
    std::remove(temporary.c_str());
    throw std::runtime_error("cannot write there: " + reason);
  }
}

void StatsFile::discard() const { std::remove(path_.c_str()); }

std::string claim_trace(const std::string& path) {
  const fs::path target = fs::absolute(path);
  const bool is_first = std::getenv("TIDEPOOL_TRACE_OWNER") == nullptr;
  owner("TIDEPOOL_TRACE_OWNER", process_id());
  if (is_first) {
    refuse_other_than_trace(target);
    return target;
  }
  const int descriptor = open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor >= 0) close(descriptor);
  if (descriptor >= 0 || errno != EEXIST) return target;
  const std::string name = target.filename();
  const size_t dot = std::min(name.find('.'), name.size());
  return target.parent_path() / (name.substr(0, dot) + "." + process_id() + name.substr(dot));
}

}  // namespace tidepool::cpp
