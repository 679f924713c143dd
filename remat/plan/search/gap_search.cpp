#include "remat/plan/search/gap_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "allocator/base/splitmix.h"

namespace tidepool::remat {
namespace {

class Search {
 public:
  Search(GapModel& model, const GapSearchConfig& config)
      : model_(model), config_(config), random_(config.seed), choices_(model.gaps().size()) {
    for (const uint64_t ns : model.costs_ns()) baseline_ns_ += static_cast<double>(ns);
    for (const uint64_t nj : model.energies_nj()) baseline_nj_ += static_cast<double>(nj);
    baseline_ns_ = std::max(baseline_ns_, 1.0);
    baseline_nj_ = std::max(baseline_nj_, 1.0);
  }

  std::optional<FoundGaps> run() {
    now_ = evaluate();
    drop_greedily();
    constexpr int kRounds = 4;
    const uint64_t each =
        (config_.operators - std::min(operators_run_, config_.operators)) / kRounds;
    for (int round = 0; round < kRounds && !choices_.empty(); ++round) {
      if (best_) {
        choices_ = best_->choices;
        now_ = best_->outcome;
      }
      anneal(operators_run_ + each);
    }
    if (best_) best_->evaluations = evaluations_;
    return std::move(best_);
  }

 private:
  GapModel::Outcome evaluate() {
    ++evaluations_;
    operators_run_ += model_.stages();
    const GapModel::Outcome outcome = model_.evaluate(choices_, config_.budget_bytes);
    const bool allowed = outcome.excess_bytes == 0 && excess(outcome) == 0;
    if (allowed && (!best_ || price(outcome) < price(best_->outcome))) {
      best_ = FoundGaps{choices_, outcome, 0};
    }
    return outcome;
  }

  double time(const GapModel::Outcome& outcome) const {
    return static_cast<double>(outcome.time_ns) / baseline_ns_;
  }
  double energy(const GapModel::Outcome& outcome) const {
    return static_cast<double>(outcome.energy_nj) / baseline_nj_;
  }
  double price(const GapModel::Outcome& outcome) const {
    return config_.goal.least_energy ? energy(outcome) : time(outcome);
  }
  // By how much time and energy are above their bounds.
  double excess(const GapModel::Outcome& outcome) const {
    return std::max(time(outcome) - config_.goal.most_time, 0.0) +
           std::max(energy(outcome) - config_.goal.most_energy, 0.0);
  }

  // Drops, in one gap after the other, what lies at the peak and costs least for its bytes and for
  // how long they are gone.
  void drop_greedily() {
    const auto gaps = model_.gaps();
    for (size_t k = 0; k < gaps.size() && now_.excess_bytes > 0; ++k) {
      size_t best = gaps.size();
      double least = 0;
      for (size_t g = 0; g < gaps.size(); ++g) {
        if (choices_[g] != GapChoice::kKept) continue;
        if (gaps[g].begin >= now_.peak_at || gaps[g].end <= now_.peak_at) continue;
        const GapModel::Value& value = model_.values()[gaps[g].value];
        const double gained = static_cast<double>(value.bytes) *
                              std::sqrt(static_cast<double>(gaps[g].end - gaps[g].begin));
        const uint64_t cost = config_.goal.least_energy ? value.energy_nj : value.cost_ns;
        const double price = static_cast<double>(cost + 1) / gained;
        if (best == gaps.size() || price < least) best = g, least = price;
      }
      if (best == gaps.size()) return;
      choices_[best] = GapChoice::kDropped;
      now_ = evaluate();
    }
  }

  // What annealing makes small: the price, and with it the excess over budget and bounds.
  double objective(const GapModel::Outcome& outcome) const {
    const double most = static_cast<double>(std::max<size_t>(config_.budget_bytes, 1));
    const double peak = static_cast<double>(outcome.peak_bytes) / most;
    const double too_many = static_cast<double>(outcome.excess_bytes) / most;
    return price(outcome) + kBoundPenalty * excess(outcome) +
           (peak > 1 ? kPenalty * (peak - 1) + kPenalty / 20 * std::log1p(too_many) : 0);
  }

  void anneal(uint64_t most_operators) {
    // Shares of the step's time: one result of a short step is more of it.
    const double hot = std::max(0.004, 1 / static_cast<double>(model_.stages()));
    const double cold = hot / 1000;
    const double begin = static_cast<double>(operators_run_);
    const double length = static_cast<double>(most_operators) - begin;
    double current = objective(now_);
    std::vector<std::pair<size_t, GapChoice>> before;
    while (operators_run_ < most_operators) {
      if (config_.stop != nullptr && config_.stop->should_stop()) return;
      const double done = (static_cast<double>(operators_run_) - begin) / length;
      const double heat = hot * std::pow(cold / hot, done);
      before.clear();
      for (uint64_t flips = 1 + random_.below(3); flips > 0; --flips) flip(before);
      const GapModel::Outcome next = evaluate();
      const double difference = objective(next) - current;
      if (difference <= 0 || unit() < std::exp(-difference / heat)) {
        current += difference;
        now_ = next;
        continue;
      }
      for (; !before.empty(); before.pop_back())
        choices_[before.back().first] = before.back().second;
    }
  }

  void flip(std::vector<std::pair<size_t, GapChoice>>& before) {
    size_t at = random_.below(choices_.size());
    const auto choose = [&](GapChoice choice) {
      before.emplace_back(at, choices_[at]);
      choices_[at] = choice;
    };
    // What nothing has read by now is rarely read after other flips.
    if (random_.below(8) == 0 && (model_.was_read(at) || random_.below(2) == 0)) {
      return choose(GapChoice::kDroppedAfter);
    }
    // Few are dropped as a rule: half of the flips concern one of these.
    for (int tries = 0; tries < 8 && choices_[at] == GapChoice::kKept && random_.below(2) > 0;
         ++tries) {
      at = random_.below(choices_.size());
    }
    if (choices_[at] == GapChoice::kKept) {
      choose(random_.below(3) > 0 ? GapChoice::kDropped : GapChoice::kDroppedOnce);
    } else if (random_.below(3) > 0) {
      choose(GapChoice::kKept);
    } else {
      const bool once = choices_[at] == GapChoice::kDroppedOnce;
      choose(once ? GapChoice::kDropped : GapChoice::kDroppedOnce);
    }
  }

  double unit() { return (static_cast<double>(random_.next() >> 11) + 0.5) * 0x1p-53; }

  static constexpr double kPenalty = 0.7, kBoundPenalty = 3;

  GapModel& model_;
  const GapSearchConfig config_;
  SplitMix random_;
  std::vector<GapChoice> choices_;
  GapModel::Outcome now_;
  std::optional<FoundGaps> best_;
  double baseline_ns_ = 0, baseline_nj_ = 0;
  uint64_t operators_run_ = 0;
  size_t evaluations_ = 0;
};

}  // namespace

std::optional<FoundGaps> find_gaps(GapModel& model, const GapSearchConfig& config) {
  return Search(model, config).run();
}

}  // namespace tidepool::remat
