// TextFile: writes text to a file, compressed by gzip if its name ends in ".gz". zlib is loaded
// when it is needed, because what goes into a user's process does not link it.
// Owns its file. Not thread safe. Throws: std::runtime_error naming the file and what failed.
#pragma once

#include <string>
#include <string_view>

#include "allocator/base/own_descriptor.h"

namespace tidepool::remat {

class TextFile {
 public:
  // Opens the file, whose contents are replaced.
  explicit TextFile(const std::string& path);
  // Closes the file without telling of failures. To hear of these, call close() first.
  ~TextFile();
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  void write(std::string_view text);
  void close();

 private:
  void flush();
  void write_plain();
  void write_compressed();
  bool close_compressed();
  [[noreturn]] void fail(const std::string& why) const;

  std::string path_;
  OwnDescriptor file_;
  void* compressed_ = nullptr;  // zlib's gzFile, if it is compressed: the descriptor is its own
  std::string pending_;
};

}  // namespace tidepool::remat
