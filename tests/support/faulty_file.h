// FaultyFile: a file in the test's memory of which one call goes wrong.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

#include "remat/tier/transfer_file.h"

namespace tidepool::test {

class FaultyFile final : public remat::TransferFile {
 public:
  enum class Kind : uint8_t {
    kNone,
    kWriteError,   // the disk is full
    kReadError,    // bytes cannot be read
    kShort,        // part of the bytes is carried, up to a multiple of the unit of direct transfers
    kOdd,          // part of the bytes, up to no such multiple
    kNothing,      // no byte, and no error
    kInterrupted,  // by a signal
    kBits,         // one bit is another
  };
  struct Fault {
    Kind kind = Kind::kNone;
    uint64_t at = 0;  // the call, counted from 1
  };

  explicit FaultyFile(Fault fault) : fault_(fault) {}

  ssize_t write_at(uint64_t offset, const char* from, size_t bytes) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    ++writes_;
    const ssize_t carried = begin(Kind::kWriteError, ENOSPC, bytes);
    if (carried <= 0) return carried;
    const auto count = static_cast<size_t>(carried);
    if (contents_.size() < offset + count) contents_.resize(offset + count);
    std::memcpy(contents_.data() + offset, from, count);
    if (is_due(Kind::kBits)) contents_[offset + count / 2] ^= 4;
    return carried;
  }
  ssize_t read_at(uint64_t offset, char* to, size_t bytes) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    ++reads_;
    if (offset >= contents_.size()) return 0;
    const ssize_t carried =
        begin(Kind::kReadError, EIO, std::min<size_t>(bytes, contents_.size() - offset));
    if (carried <= 0) return carried;
    std::memcpy(to, contents_.data() + offset, static_cast<size_t>(carried));
    if (is_due(Kind::kBits)) to[carried / 2] ^= 4;
    return carried;
  }

  uint64_t calls() const { return writes_ + reads_; }
  uint64_t writes() const { return writes_; }
  uint64_t reads() const { return reads_; }

 private:
  bool is_due(Kind kind) const { return fault_.kind == kind && calls() == fault_.at; }
  // How many of the bytes are carried; 0 or below: what the call returns.
  ssize_t begin(Kind failing, int error, size_t bytes) const {
    constexpr size_t kUnit = 4096;
    if (is_due(failing) || is_due(Kind::kInterrupted)) {
      errno = is_due(failing) ? error : EINTR;
      return -1;
    }
    if (is_due(Kind::kNothing)) return 0;
    if (is_due(Kind::kOdd)) return static_cast<ssize_t>(std::min<size_t>(bytes, 100));
    if (is_due(Kind::kShort)) bytes = std::max(bytes / 2 / kUnit * kUnit, std::min(bytes, kUnit));
    return static_cast<ssize_t>(bytes);
  }

  const Fault fault_;
  mutable std::mutex mutex_;
  std::vector<char> contents_;
  uint64_t writes_ = 0, reads_ = 0;
};

}  // namespace tidepool::test
