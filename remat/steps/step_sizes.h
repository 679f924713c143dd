// StepSizes: what steps that do the same with other sizes have in common, so that a step of a size
// that was never seen can be foreseen from its beginning. The bytes of each storage and the time of
// each call are functions of a few sizes: the bytes of some of the first storages that a step
// meets, its inputs and what the first calls make of them. With texts of one length that is one
// number; with rows and lengths it is two, such as the bytes of the words and those of the
// positions.
// The functions for bytes are c · x^i · y^j with small exponents: what a network makes has as many
// elements as some of its dimensions multiplied, and each dimension is such a product of the sizes
// that tell it. From three steps on also a + c · x^i · y^j, and from four on the sum of two
// products. Each has fewer unknowns than there are steps, so that the steps confirm it. If one that
// matters is confirmed by no function, or the beginning does not tell the sizes, nothing is
// foreseen. The functions for times are a + c · x^i · y^j, the nearest to what was measured.
// Plain data, once it is learnt.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "remat/lineage/container_bytes.h"

namespace tidepool::remat {

// StepSample: what is known of a step that was seen.
struct StepSample {
  std::span<const size_t> bytes;      // of the storages, in the order in which the step met them
  std::span<const uint64_t> call_ns;  // the times of its calls
};

class StepSizes {
 public:
  // Returns nothing if the samples do not determine how sizes depend on each other. Requires: the
  // samples are of steps that do the same: they have as many storages, and as many calls.
  // Takes milliseconds for thousands of storages.
  static std::optional<StepSizes> learn(std::span<const StepSample> samples);

  // How many of a step's first storages tell its sizes.
  size_t head() const { return head_; }
  // A step that begins with storages of these bytes. `bytes` and `call_ns` get an entry for each
  // storage and call of the step. Returns false if no steps that were seen were like it: its first
  // storages do not depend on each other as theirs, or have more bytes than any memory.
  // Requires: at least head() bytes.
  bool foresee(std::span<const size_t> first_bytes, std::vector<size_t>& bytes,
               std::vector<uint64_t>& call_ns) const;

  // Whether bytes are about as foreseen: off by a small share of them, or by at most `slack`.
  static bool about_equal(size_t foreseen, size_t found, size_t slack);

  size_t bookkeeping_bytes() const {
    return bytes_of(sizes_) + bytes_of(products_) + bytes_of(functions_) + bytes_of(by_storage_) +
           bytes_of(by_call_);
  }

 private:
  friend class StepSizesLearner;

  static constexpr size_t kMostSizes = 3;
  static constexpr uint8_t kNone = UINT8_MAX;
  // The exponents of a product, as twice their values.
  using Exponents = std::array<int8_t, kMostSizes>;
  // constant + factor · product [+ factor2 · product2]
  struct Function {
    double constant = 0, factor = 0, factor2 = 0;
    uint8_t product = 0, product2 = kNone;
  };

  double value_of(const Function& function, std::span<const double> products) const;
  std::vector<double> products_at(std::span<const double> sizes) const;

  size_t head_ = 0;
  size_t grain_ = 1;             // all bytes are multiples of it, a power of two
  std::vector<uint32_t> sizes_;  // the storages whose bytes are the sizes
  std::vector<Exponents> products_;
  std::vector<Function> functions_;   // of bytes; many storages share one
  std::vector<uint32_t> by_storage_;  // among functions_
  std::vector<Function> by_call_;     // of times
};

}  // namespace tidepool::remat
