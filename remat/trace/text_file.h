// TextFile: text written to a file, compressed by gzip where its name ends in ".gz". Compression is
// zlib's, looked for when it is needed: what goes into a user's process links no zlib.
// Owns its file. Not thread safe. Throws: std::runtime_error naming the file and what failed.
#pragma once

#include <string>
#include <string_view>

namespace tidepool::plan {

class TextFile {
 public:
  // Replaces what is there.
  explicit TextFile(const std::string& path);
  // Closes without a word about failures: call close() first.
  ~TextFile();
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  void write(std::string_view text);
  void close();

 private:
  void flush();
  void write_plain();
  void write_compressed();
  [[noreturn]] void fail(const std::string& why) const;

  std::string path_;
  int file_ = -1;              // where it is not compressed
  void* compressed_ = nullptr;  // zlib's gzFile
  std::string pending_;
};

}  // namespace tidepool::plan
