#include "remat/trace/text/text_file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "fmt/format.h"

namespace tidepool::remat {
namespace {

constexpr size_t kChunk = 256u << 10;

// The functions of zlib that a writer needs; all null where there is none.
struct Zlib {
  decltype(&gzdopen) open = nullptr;
  decltype(&gzwrite) write = nullptr;
  decltype(&gzclose) close = nullptr;
  decltype(&gzerror) error = nullptr;
};

Zlib find_zlib() {
  Zlib zlib;
  void* library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return zlib;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    return function != nullptr;
  };
  const bool complete = find(zlib.open, "gzdopen") && find(zlib.write, "gzwrite") &&
                        find(zlib.close, "gzclose") && find(zlib.error, "gzerror");
  return complete ? zlib : Zlib{};
}

const Zlib& zlib() {
  static const Zlib found = find_zlib();
  return found;
}

gzFile file_of(void* file) { return static_cast<gzFile>(file); }

}  // namespace

TextFile::TextFile(const std::string& path) : path_(path) {
  const bool compress = path.ends_with(".gz");
  if (compress && zlib().open == nullptr) fail("libz.so.1, which compresses, was not found");
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) fail(std::strerror(errno));
  file_ = OwnDescriptor(file);
  if (!compress) return;
  // The lowest level: lines are alike, and time counts.
  compressed_ = zlib().open(file_.get(), "wb1");
  if (compressed_ == nullptr) fail("zlib refuses it");
}

TextFile::~TextFile() { close_compressed(); }

// True: all has been written. What the job has closed is left alone, and so is what zlib has for
// it, as zlib would close its descriptor's number.
bool TextFile::close_compressed() {
  void* const file = std::exchange(compressed_, nullptr);
  if (file == nullptr) return true;
  const bool is_open = file_.get() >= 0;
  file_.release();
  return is_open && zlib().close(file_of(file)) == Z_OK;
}

void TextFile::fail(const std::string& why) const {
  throw std::runtime_error(fmt::format("{}: cannot be written: {}", path_, why));
}

void TextFile::write_plain() {
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const ssize_t written = ::write(file_.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(std::strerror(errno));
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

void TextFile::write_compressed() {
  if (file_.get() < 0) fail(std::strerror(errno));
  const int written =
      zlib().write(file_of(compressed_), pending_.data(), static_cast<unsigned>(pending_.size()));
  if (written > 0) return;
  int code = Z_OK;
  const char* why = zlib().error(file_of(compressed_), &code);
  fail(code == Z_ERRNO ? std::strerror(errno) : why);
}

void TextFile::flush() {
  if (pending_.empty()) return;
  if (compressed_ != nullptr) {
    write_compressed();
  } else {
    write_plain();
  }
  pending_.clear();
}

void TextFile::write(std::string_view text) {
  pending_ += text;
  if (pending_.size() >= kChunk) flush();
}

void TextFile::close() {
  flush();
  errno = 0;
  const bool written = compressed_ != nullptr ? close_compressed() : file_.close();
  if (!written) fail(errno != 0 ? std::strerror(errno) : "the file is incomplete");
}

}  // namespace tidepool::remat
