#include "remat/simulate/memory/lower_bound.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

namespace tidepool::remat {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// Version: the contents of a storage from when an operator (or somebody outside) has written them
// to when the next operator writes them.
struct Version {
  size_t bytes = 0;
  double ns_per_byte = 0;  // its operator's cost / the bytes of all results of that operator
  bool fixed = false;      // true if no operator can make it again
  size_t last_use = 0;     // 1 + the last operator that reads or updates it; 0 if there is none
};

// Sums: a set of versions, with the bytes and costs of the cheapest by byte (a tree of Fenwick 1994
// in the order of ns_per_byte).
class Sums {
 public:
  explicit Sums(const std::vector<Version>& versions)
      : versions_(versions),
        bytes_(versions.size() + 1),
        ns_(versions.size() + 1),
        order_(versions.size()),
        rank_(versions.size()) {
    std::iota(order_.begin(), order_.end(), 0U);
    std::stable_sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
      return versions[a].ns_per_byte < versions[b].ns_per_byte;
    });
    for (uint32_t k = 0; k < order_.size(); ++k) rank_[order_[k]] = k;
  }

  void add(uint32_t version, double sign) {
    const auto bytes = static_cast<double>(versions_[version].bytes) * sign;
    total_ += bytes;
    for (size_t k = rank_[version] + 1; k < bytes_.size(); k += k & (~k + 1)) {
      bytes_[k] += bytes;
      ns_[k] += bytes * versions_[version].ns_per_byte;
    }
  }
  double total_bytes() const { return total_; }

  // The least cost of `bytes` bytes of versions in the set. Requires: the set has as many bytes.
  double cheapest_ns(double bytes) const {
    size_t at = 0;
    double ns = 0;
    for (size_t step = std::bit_floor(bytes_.size()); step > 0; step /= 2) {
      if (at + step >= bytes_.size() || bytes_[at + step] > bytes) continue;
      at += step;
      bytes -= bytes_[at];
      ns += ns_[at];
    }
    if (at < order_.size()) ns += bytes * versions_[order_[at]].ns_per_byte;
    return ns;
  }

 private:
  const std::vector<Version>& versions_;
  std::vector<double> bytes_, ns_;  // the sums of bytes are whole numbers, and exact
  std::vector<uint32_t> order_;     // the versions, sorted by ns_per_byte
  std::vector<uint32_t> rank_;
  double total_ = 0;
};

// Walk: goes through the trace twice, in the same order: the first time to find the versions, the
// second time to find the bound of each operator.
class Walk {
 public:
  Walk(const Trace& trace, size_t budget_bytes) : trace_(trace), budget_(budget_bytes) {}

  void find_versions(bool end_resident) {
    current_.assign(trace_.storages.size(), kNone);
    for (const TraceEvent& event : trace_.events) {
      if (event.kind == EventKind::kRoot) start(event.index, 0, true);
      if (event.kind == EventKind::kRelease) current_[event.index] = kNone;
      if (event.kind == EventKind::kOperator) find_in(event.index);
    }
    if (!end_resident) return;
    for (const uint32_t version : current_) {
      if (version != kNone) versions_[version].last_use = SIZE_MAX;
    }
  }

  // The bound on extra compute; nothing if no schedule fits.
  std::optional<double> extra_ns() {
    Sums sums(versions_);
    sums_ = &sums;
    current_.assign(trace_.storages.size(), kNone);
    next_ = 0;
    for (const TraceEvent& event : trace_.events) {
      if (event.kind == EventKind::kRoot) enter(event.index, 0);
      if (event.kind == EventKind::kRelease) leave(event.index);
      if (event.kind == EventKind::kOperator) add_in(event.index);
      if (!fits_) return std::nullopt;
    }
    return extra_ns_;
  }

 private:
  void start(uint32_t storage, double ns_per_byte, bool fixed) {
    current_[storage] = static_cast<uint32_t>(versions_.size());
    const size_t bytes = trace_.aligned_bytes(static_cast<StorageIndex>(storage));
    versions_.push_back({bytes, ns_per_byte, fixed, 0});
  }

  static bool reads_it(const TraceOperator& op, const TraceWrite& write) {
    return write.access != Access::kOverwrite || !op.recordable;
  }

  void find_in(uint32_t index) {
    const TraceOperator& op = trace_.operators[index];
    size_t bytes = 0;
    for (const StorageIndex output : trace_.outputs(op)) bytes += trace_.aligned_bytes(output);
    for (const TraceWrite& write : trace_.writes(op)) bytes += trace_.aligned_bytes(write.storage);
    const double share =
        static_cast<double>(op.cost_ns) / static_cast<double>(std::max<size_t>(bytes, 1));
    for (const StorageIndex read : trace_.reads(op)) use(read, index);
    for (const TraceWrite& write : trace_.writes(op)) {
      if (reads_it(op, write)) use(write.storage, index);
      const bool was_fixed = versions_[current_[number(write.storage)]].fixed;
      const bool fixed = !op.recordable || write.access == Access::kSideWrite ||
                         (write.access == Access::kUpdate && was_fixed);
      start(static_cast<uint32_t>(number(write.storage)), share, fixed);
    }
    for (const StorageIndex output : trace_.outputs(op)) {
      start(static_cast<uint32_t>(number(output)), share, !op.recordable);
    }
  }

  void use(StorageIndex storage, uint32_t index) {
    Version& version = versions_[current_[number(storage)]];
    version.last_use = std::max<size_t>(version.last_use, index + size_t{1});
  }

  // The storage has its next version, in the order of find_versions(). `after` is the number of
  // operators that have run.
  void enter(uint32_t storage, size_t after) {
    current_[storage] = next_++;
    count(storage, after, 1);
  }
  void leave(uint32_t storage) {
    count(storage, operators_, -1);
    current_[storage] = kNone;
  }
  // Takes the storage's version into the sums (`sign` 1) or out of them (-1), if it is needed after
  // `after` operators.
  void count(uint32_t storage, size_t after, int sign) {
    const uint32_t index = current_[storage];
    const Version& version = versions_[index];
    if (version.fixed) {
      fixed_ += sign * static_cast<double>(version.bytes);
    } else if (version.last_use > after) {
      sums_->add(index, sign);
    }
  }

  void add_in(uint32_t index) {
    const TraceOperator& op = trace_.operators[index];
    double needed = static_cast<double>(trace_.aligned(op.workspace_bytes));
    // While the operator runs, the versions that it uses are resident and count apart; afterwards
    // some of them are not needed any more.
    auto take_out = [&](StorageIndex storage) {
      const auto at = static_cast<uint32_t>(number(storage));
      count(at, index, -1);
      needed += static_cast<double>(trace_.aligned_bytes(storage));
    };
    for (const StorageIndex read : trace_.reads(op)) take_out(read);
    for (const TraceWrite& write : trace_.writes(op)) take_out(write.storage);
    for (const StorageIndex output : trace_.outputs(op)) {
      needed += static_cast<double>(trace_.aligned_bytes(output));
    }
    const double missing = fixed_ + needed + sums_->total_bytes() - static_cast<double>(budget_);
    if (missing > sums_->total_bytes()) fits_ = false;
    if (fits_ && missing > 0) extra_ns_ = std::max(extra_ns_, sums_->cheapest_ns(missing));
    operators_ = index + size_t{1};
    for (const StorageIndex read : trace_.reads(op)) {
      count(static_cast<uint32_t>(number(read)), operators_, 1);
    }
    for (const TraceWrite& write : trace_.writes(op)) {
      enter(static_cast<uint32_t>(number(write.storage)), operators_);
    }
    for (const StorageIndex output : trace_.outputs(op)) {
      enter(static_cast<uint32_t>(number(output)), operators_);
    }
  }

  const Trace& trace_;
  const size_t budget_;
  std::vector<Version> versions_;
  std::vector<uint32_t> current_;  // by storage: its version
  uint32_t next_ = 0;
  size_t operators_ = 0;  // how many have run
  Sums* sums_ = nullptr;
  double fixed_ = 0;
  double extra_ns_ = 0;
  bool fits_ = true;
};

}  // namespace

std::optional<double> lower_bound(const Trace& trace, size_t budget_bytes, bool end_resident) {
  Walk walk(trace, budget_bytes);
  walk.find_versions(end_resident);
  const std::optional<double> extra_ns = walk.extra_ns();
  if (!extra_ns) return std::nullopt;
  const auto baseline_ns = static_cast<double>(trace.baseline_ns());
  return baseline_ns > 0 ? 1 + *extra_ns / baseline_ns : 1;
}

}  // namespace tidepool::remat
