#include "remat/trace/text/text_lines.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "fmt/format.h"

namespace tidepool::remat {
namespace {

constexpr size_t kChunk = 256u << 10;

gzFile file_of(void* file) { return static_cast<gzFile>(file); }

}  // namespace

TextLines::TextLines(const std::string& path) : path_(path), buffer_(2 * kChunk) {
  file_ = path == "-" ? gzdopen(0, "rb") : gzopen(path.c_str(), "rb");
  if (file_ == nullptr) {
    throw std::runtime_error(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  }
  gzbuffer(file_of(file_), kChunk);
}

TextLines::~TextLines() {
  if (file_ != nullptr) gzclose(file_of(file_));
}

bool TextLines::fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ + kChunk > buffer_.size()) {
    if (end_ > kMostLineBytes) {
      throw std::runtime_error(fmt::format("{}:{}: a line of more than {} bytes", path_,
                                           line_number_ + 1, kMostLineBytes));
    }
    buffer_.resize(2 * buffer_.size());
  }
  const int got = gzread(file_of(file_), buffer_.data() + end_, kChunk);
  int code = Z_OK;
  const char* why = gzerror(file_of(file_), &code);
  // A stream that is cut short gives what it has, and says so beside.
  if (got < 0 || (got == 0 && code != Z_OK && code != Z_STREAM_END)) {
    throw std::runtime_error(fmt::format("{}:{}: cannot be read on: {}", path_, line_number_ + 1,
                                         code == Z_ERRNO ? std::strerror(errno) : why));
  }
  end_ += static_cast<size_t>(got);
  return got > 0;
}

bool TextLines::next(std::string_view* line) {
  size_t searched = 0;
  while (true) {
    const char* start = buffer_.data() + begin_;
    const void* newline = std::memchr(start + searched, '\n', end_ - begin_ - searched);
    size_t bytes = end_ - begin_;
    if (newline != nullptr) bytes = static_cast<size_t>(static_cast<const char*>(newline) - start);
    if (newline == nullptr) {
      searched = bytes;
      if (fill()) continue;
      if (bytes == 0) return false;
      start = buffer_.data() + begin_;
    }
    ended_ = newline != nullptr;
    *line = {start, bytes};
    begin_ += bytes + (ended_ ? 1 : 0);
    ++line_number_;
    return true;
  }
}

}  // namespace tidepool::remat
