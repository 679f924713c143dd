#include "remat/steps/step_sizes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "allocator/base/check.h"

namespace tidepool::remat {
namespace {

// Bytes of one function are as in all samples up to this share, or up to the grain.
constexpr double kExact = 1e-9, kTolerance = 1e-3;
// The share of a step's bytes that may follow no function.
constexpr double kUnexplained = 1e-3;
// The beginning that tells a step's sizes has at most so many storages, and half of the step's.
constexpr size_t kMostHead = 256;
// Allocators round sizes up to multiples of so much. Less comes from the sizes of elements.
constexpr size_t kLeastGrain = 64, kMostGrain = 512;
constexpr double kMostBytes = 0x1p44, kMostNs = 0x1p44;

}  // namespace

// StepSizesLearner: learns from samples, which it looks at again and again.
class StepSizesLearner {
 public:
  explicit StepSizesLearner(std::span<const StepSample> samples) : samples_(samples) {
    size_t bits = kMostGrain;
    for (const StepSample& sample : samples) {
      for (const size_t bytes : sample.bytes) bits |= bytes;
    }
    const size_t grain = bits & (~bits + 1);
    out_.grain_ = grain < kLeastGrain ? 1 : grain;
    group();
  }

  std::optional<StepSizes> learn() {
    const size_t storages = samples_[0].bytes.size();
    for (size_t head = 1;; head *= 2) {
      out_.head_ = std::min({head, (storages + 1) / 2, kMostHead});
      find_sizes();
      if (fit_bytes()) break;
      if (out_.head_ < head) return std::nullopt;
    }
    fit_times();
    return std::move(out_);
  }

 private:
  using Function = StepSizes::Function;
  using Values = std::vector<double>;  // by sample

  // Fit: a function, and how far it is from the samples, as a share of what is found there.
  struct Fit {
    Function function;
    double error = HUGE_VAL;
  };

  // Gives storages that have the same bytes in each of the samples the same function.
  void group() {
    std::map<Values, uint32_t> known;
    const size_t storages = samples_[0].bytes.size();
    for (size_t k = 0; k < storages; ++k) {
      Values values;
      for (const StepSample& sample : samples_) {
        values.push_back(static_cast<double>(sample.bytes[k]));
      }
      const auto [at, is_new] = known.try_emplace(values, known.size());
      if (is_new) groups_.push_back(std::move(values)), storages_.push_back(0);
      ++storages_[at->second];
      out_.by_storage_.push_back(at->second);
    }
  }

  static bool varies(const Values& values) {
    return std::any_of(values.begin(), values.end(), [&](double v) { return v != values[0]; });
  }

  // Takes as sizes, of the first storages, those with the most bytes, which are rounded the least,
  // that are no product of others.
  void find_sizes() {
    out_.sizes_.clear();
    set_products();
    std::vector<uint32_t> order;
    for (uint32_t k = 0; k < out_.head_; ++k) {
      if (varies(groups_[out_.by_storage_[k]])) order.push_back(k);
    }
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return groups_[out_.by_storage_[a]][0] > groups_[out_.by_storage_[b]][0];
    });
    for (const uint32_t storage : order) {
      const size_t known = out_.sizes_.size();
      if (known == StepSizes::kMostSizes || known + 2 > samples_.size()) return;
      if (known > 0 && is_good(best_product(groups_[out_.by_storage_[storage]]))) continue;
      out_.sizes_.push_back(storage);
      set_products();
    }
  }

  // Lists the products of the sizes, and what they are in the samples. The first is 1.
  void set_products() {
    constexpr int kPowers[] = {-2, 0, 2, 4};
    constexpr int kPowersOfOne[] = {-2, 0, 1, 2, 3, 4, 6};
    constexpr int kMostPower = 6;  // of all sizes together
    const size_t sizes = out_.sizes_.size();
    std::vector<StepSizes::Exponents> all{{}};
    for (size_t k = 0; k < sizes; ++k) {
      std::vector<StepSizes::Exponents> next;
      const auto powers = sizes == 1 ? std::span<const int>(kPowersOfOne) : kPowers;
      for (const auto& each : all) {
        for (const int power : powers) {
          next.push_back(each);
          next.back()[k] = static_cast<int8_t>(power);
        }
      }
      all = std::move(next);
    }
    const auto sum = [](const StepSizes::Exponents& each) {
      int total = 0;
      for (const int power : each) total += std::abs(power);
      return total;
    };
    std::erase_if(all, [&](const auto& each) { return sum(each) > kMostPower; });
    std::stable_sort(all.begin(), all.end(), [&](auto& a, auto& b) { return sum(a) < sum(b); });
    out_.products_ = std::move(all);
    at_samples_.assign(out_.products_.size(), {});
    for (size_t s = 0; s < samples_.size(); ++s) {
      std::vector<double> at;
      for (const uint32_t size : out_.sizes_) at.push_back(groups_[out_.by_storage_[size]][s]);
      const std::vector<double> products = out_.products_at(at);
      for (size_t p = 0; p < products.size(); ++p) at_samples_[p].push_back(products[p]);
    }
  }

  bool is_good(const Fit& fit) const { return fit.error <= kTolerance; }

  // How far a function is from the values, beyond what rounding does.
  double error_of(const Function& function, const Values& values) const {
    double error = 0;
    for (size_t s = 0; s < values.size(); ++s) {
      double found = function.constant + function.factor * at_samples_[function.product][s];
      if (function.product2 != StepSizes::kNone) {
        found += function.factor2 * at_samples_[function.product2][s];
      }
      const double rounding = out_.grain_ > 1 ? static_cast<double>(out_.grain_) : 0;
      const double off = std::max(std::abs(found - values[s]) - rounding, 0.0) +
                         std::abs(found - values[s]) * kExact;
      error = std::max(error, off / std::max(values[s], 1.0));
    }
    return error;
  }

  static void keep_better(Fit& best, const Function& function, double error) {
    if (error < best.error) best = {function, error};
  }

  Fit best_product(const Values& values) const {
    const size_t largest = std::max_element(values.begin(), values.end()) - values.begin();
    Fit best;
    for (size_t p = 0; p < at_samples_.size(); ++p) {
      Function function;
      function.product = static_cast<uint8_t>(p);
      function.factor = values[largest] / at_samples_[p][largest];
      keep_better(best, function, error_of(function, values));
    }
    return best;
  }

  // a + c · product, through the two samples that are the farthest apart.
  void try_sums_with_constant(const Values& values, Fit& best) const {
    for (size_t p = 1; p < at_samples_.size(); ++p) {
      const Values& x = at_samples_[p];
      const auto [least, most] = std::minmax_element(x.begin(), x.end());
      const size_t a = least - x.begin(), b = most - x.begin();
      if (x[a] == x[b]) continue;
      Function function;
      function.product = static_cast<uint8_t>(p);
      function.factor = (values[b] - values[a]) / (x[b] - x[a]);
      function.constant = values[a] - function.factor * x[a];
      keep_better(best, function, error_of(function, values));
    }
  }

  // c · product + d · product, by least squares of the shares.
  void try_sums_of_two(const Values& values, Fit& best) const {
    for (size_t p = 1; p < at_samples_.size(); ++p) {
      for (size_t q = p + 1; q < at_samples_.size(); ++q) {
        double pp = 0, pq = 0, qq = 0, py = 0, qy = 0;
        for (size_t s = 0; s < values.size(); ++s) {
          if (values[s] <= 0) continue;
          const double x = at_samples_[p][s] / values[s], y = at_samples_[q][s] / values[s];
          pp += x * x, pq += x * y, qq += y * y, py += x, qy += y;
        }
        const double determinant = pp * qq - pq * pq;
        if (!(std::abs(determinant) > 1e-12 * pp * qq)) continue;
        Function function;
        function.product = static_cast<uint8_t>(p);
        function.product2 = static_cast<uint8_t>(q);
        function.factor = (py * qq - qy * pq) / determinant;
        function.factor2 = (pp * qy - pq * py) / determinant;
        keep_better(best, function, error_of(function, values));
      }
    }
  }

  // Whether all bytes but few follow functions.
  bool fit_bytes() {
    if (samples_.size() <= out_.sizes_.size() || out_.sizes_.empty()) return false;
    out_.functions_.clear();
    Values total(samples_.size()), unexplained(samples_.size());
    for (size_t g = 0; g < groups_.size(); ++g) {
      const Values& values = groups_[g];
      Fit best = best_product(values);
      if (!(best.error <= kExact) && samples_.size() >= 3) try_sums_with_constant(values, best);
      if (!is_good(best) && samples_.size() >= 4) try_sums_of_two(values, best);
      out_.functions_.push_back(best.function);
      for (size_t s = 0; s < samples_.size(); ++s) {
        const double bytes = values[s] * storages_[g];
        total[s] += bytes;
        if (!is_good(best)) unexplained[s] += bytes;
      }
    }
    for (size_t s = 0; s < samples_.size(); ++s) {
      if (unexplained[s] > kUnexplained * total[s]) return false;
    }
    return true;
  }

  void fit_times() {
    const size_t calls = samples_[0].call_ns.size();
    Values values(samples_.size());
    for (size_t k = 0; k < calls; ++k) {
      for (size_t s = 0; s < samples_.size(); ++s) {
        values[s] = std::max(static_cast<double>(samples_[s].call_ns[k]), 1.0);
      }
      out_.by_call_.push_back(best_time(values));
    }
  }

  // Times vary: the function with the least squares of shares is taken. One with a constant has to
  // be better by some, and none has negative parts.
  Function best_time(const Values& values) const {
    constexpr double kBetter = 0.8;
    Function best;
    double least = HUGE_VAL;
    const auto count = static_cast<double>(values.size());
    for (size_t p = 0; p < at_samples_.size(); ++p) {
      const auto& powers = out_.products_[p];
      if (std::any_of(powers.begin(), powers.end(), [](int power) { return power < 0; })) continue;
      double xx = 0, x1 = 0, oo = 0, xy = 0, oy = 0;
      for (size_t s = 0; s < values.size(); ++s) {
        const double x = at_samples_[p][s] / values[s], one = 1 / values[s];
        xx += x * x, x1 += x * one, oo += one * one, xy += x, oy += one;
      }
      Function function;
      function.product = static_cast<uint8_t>(p);
      function.factor = xy / xx;
      const double error = count - xy * xy / xx;
      if (error < least * (1 - kExact)) best = function, least = error;
      const double determinant = xx * oo - x1 * x1;
      if (values.size() < 3 || !(determinant > kExact * xx * oo)) continue;
      function.factor = (xy * oo - oy * x1) / determinant;
      function.constant = (xx * oy - x1 * xy) / determinant;
      if (function.factor < 0 || function.constant < 0) continue;
      const double both = count - function.factor * xy - function.constant * oy;
      if (both < least * kBetter) best = function, least = both;
    }
    return best;
  }

  const std::span<const StepSample> samples_;
  std::vector<Values> groups_;      // bytes by sample, of storages that have the same in all
  std::vector<uint32_t> storages_;  // how many a group has
  std::vector<Values> at_samples_;  // by product
  StepSizes out_;
};

std::optional<StepSizes> StepSizes::learn(std::span<const StepSample> samples) {
  if (samples.size() < 2 || samples[0].bytes.empty()) return std::nullopt;
  for (const StepSample& sample : samples) {
    TIDEPOOL_CHECK(sample.bytes.size() == samples[0].bytes.size() &&
                       sample.call_ns.size() == samples[0].call_ns.size(),
                   "%zu storages and %zu calls", sample.bytes.size(), sample.call_ns.size());
  }
  return StepSizesLearner(samples).learn();
}

std::vector<double> StepSizes::products_at(std::span<const double> sizes) const {
  std::vector<double> products;
  for (const Exponents& exponents : products_) {
    double product = 1;
    for (size_t k = 0; k < sizes.size(); ++k) {
      if (exponents[k] != 0) product *= std::pow(sizes[k], 0.5 * exponents[k]);
    }
    products.push_back(product);
  }
  return products;
}

double StepSizes::value_of(const Function& function, std::span<const double> products) const {
  double value = function.constant + function.factor * products[function.product];
  if (function.product2 != kNone) value += function.factor2 * products[function.product2];
  return value;
}

bool StepSizes::foresee(std::span<const size_t> first_bytes, std::vector<size_t>& bytes,
                        std::vector<uint64_t>& call_ns) const {
  TIDEPOOL_CHECK(first_bytes.size() >= head_, "%zu storages of %zu", first_bytes.size(), head_);
  std::vector<double> sizes;
  for (const uint32_t storage : sizes_) {
    if (first_bytes[storage] == 0) return false;
    sizes.push_back(static_cast<double>(first_bytes[storage]));
  }
  const std::vector<double> products = products_at(sizes);
  std::vector<size_t> by_function;
  for (const Function& function : functions_) {
    const double value = value_of(function, products);
    if (!(value >= 0 && value <= kMostBytes)) return false;
    // What is rounded up to the grain is a little above the function, or a little below.
    const auto nearest = static_cast<size_t>(std::llround(value));
    by_function.push_back((nearest + grain_ - 1) & ~(grain_ - 1));
  }
  bytes.clear();
  for (const uint32_t function : by_storage_) bytes.push_back(by_function[function]);
  // A beginning that is not as its own sizes say is of steps that vary in yet another size.
  for (size_t k = 0; k < head_; ++k) {
    const auto foreseen = static_cast<double>(bytes[k]),
               found = static_cast<double>(first_bytes[k]);
    const double most = std::max(static_cast<double>(grain_), kTolerance * found);
    if (std::abs(foreseen - found) > most) return false;
  }
  std::copy(first_bytes.begin(), first_bytes.begin() + static_cast<ptrdiff_t>(head_),
            bytes.begin());
  call_ns.clear();
  for (const Function& function : by_call_) {
    const double value = value_of(function, products);
    call_ns.push_back(static_cast<uint64_t>(std::llround(std::clamp(value, 0.0, kMostNs))));
  }
  return true;
}

bool StepSizes::about_equal(size_t foreseen, size_t found, size_t slack) {
  constexpr size_t kShare = 64;
  const size_t off = foreseen > found ? foreseen - found : found - foreseen;
  return off <= std::max(found / kShare, slack);
}

}  // namespace tidepool::remat
