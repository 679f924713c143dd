// TextLines: reads text line by line, plain or compressed by gzip, which it recognizes by itself.
// Owns its file. Not thread safe. Throws: std::runtime_error naming the file and what failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tidepool::remat {

class TextLines {
 public:
  // `path`: "-" is standard input.
  explicit TextLines(const std::string& path);
  ~TextLines();
  TextLines(const TextLines&) = delete;
  TextLines& operator=(const TextLines&) = delete;

  // Gives the next line, without its end, which is valid until the next call. False at the end of
  // the text.
  // Throws: also if the compressed file is damaged or cut short, or a line is longer than
  // kMostLineBytes.
  bool next(std::string_view* line);
  // The number of the line that next() gave last, counted from 1.
  uint64_t line_number() const { return line_number_; }
  // Whether the last line had an end, so that it is complete.
  bool ended() const { return ended_; }
  const std::string& path() const { return path_; }

  static constexpr size_t kMostLineBytes = 64u << 20;

 private:
  bool fill();

  std::string path_;
  void* file_ = nullptr;  // zlib's gzFile
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
  uint64_t line_number_ = 0;
  bool ended_ = true;
};

}  // namespace tidepool::remat
