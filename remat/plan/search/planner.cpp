#include "remat/plan/search/planner.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "allocator/base/splitmix.h"
#include "remat/plan/search/gap_search.h"
#include "remat/plan/search/tier_plans.h"
#include "remat/simulate/simulated_process.h"
#include "remat/trace/trace_peak.h"

namespace tidepool::remat {
namespace {

// The bounds of one search for gaps: a quarter of a second.
constexpr uint64_t kGapEvaluations = 50'000, kGapOperators = 15'000'000;

// With perturbed times the budget is smaller, too, the k-th time by k parts in so many: the job's
// memory is not laid out quite as the simulation's, and just above the least memory that a plan
// needs a step may take ten times as long with a little less.
constexpr size_t kMargin = 50;

class Random : public SplitMix {
 public:
  using SplitMix::SplitMix;

  double unit() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53; }
  double normal() {  // by the method of Box and Muller (1958)
    constexpr double kTurn = 6.283185307179586;
    return std::sqrt(-2 * std::log(unit())) * std::cos(kTurn * unit());
  }
};

// Candidate: a plan, and the figures of its simulations.
struct Candidate {
  StepPlan plan;
  std::vector<double> overheads;    // with searches for room: recorded times first, then perturbed
  double overhead = 0;              // without searches for room, with the recorded times
  std::vector<uint32_t> evictions;  // by output, with the recorded times

  double score() const {
    double sum = 0;
    for (const double each : overheads) sum += each;
    return sum / static_cast<double>(overheads.size());
  }
};

class Search {
 public:
  Search(const Trace& step, const SimulationConfig& job, const PlannerConfig& config)
      : config_(config), job_(job), random_(config.seed), outputs_(weighted_outputs(step)) {
    job_.policy = "planned";
    job_.iterations = 1;
    job_.step_history_at_once = true;
    times_.push_back(step);
    for (size_t k = 0; k < config.perturbed; ++k) {
      times_.push_back(with_other_times(step, config.spread, random_.next()));
    }
    learn();
  }

  std::vector<RankedPlan> run() {
    std::vector<Candidate> found = find();
    if (found.empty() && times_.size() > 1 && config_.recorded_times_suffice) {
      times_.resize(1);
      operators_run_ = 0;
      found = find();
      // A plan that may fail is worth having only for a step that fails without a plan.
      if (std::any_of(found.begin(), found.end(), [](auto& each) { return each.plan.is_none(); })) {
        return {};
      }
    }
    std::vector<RankedPlan> ranked;
    for (Candidate& each : found) {
      ranked.push_back({std::move(each.plan), each.score(), each.overhead});
    }
    return ranked;
  }

  BestPlan best_of(std::span<const StepPlan> plans) {
    // Less is what chance makes of sizes and times that are not quite as foreseen.
    constexpr double kLeastGain = 0.001;
    BestPlan found;
    Candidate best;
    const bool runs = evaluate(best, nullptr);
    if (runs) found.share = best.score() - 1;
    for (double& overhead : best.overheads) overhead -= kLeastGain;
    for (size_t k = 0; k < plans.size(); ++k) {
      Candidate candidate;
      candidate.plan = plans[k];
      if (!evaluate(candidate, runs || found.plan ? &best : nullptr)) continue;
      best = std::move(candidate);
      found.plan = k;
    }
    return found;
  }

 private:
  // Learns the history of the step, which runs under an ample budget for that.
  void learn() {
    SimulationConfig ample = job_;
    ample.memory = MemoryModel::kExact;
    ample.budget_bytes = std::max<size_t>(trace_peak(times_[0]).peak_bytes, 1);
    const auto teacher = SimulatedProcess::make(times_[0], ample);
    SimulationResult ignored;
    teacher->run_iteration(&ignored);
    step_history_ = teacher->runtime().step_history();
  }

  // Returns a process that has run the step once without a plan, as the job has by the time that it
  // gets one, so that memory is as that step has left it. If the step fails without a plan, returns
  // a process that has not begun. Returns nullptr if the budget is smaller than a page.
  std::unique_ptr<SimulatedProcess> make_process(size_t times, const SimulationConfig& config) {
    auto process = SimulatedProcess::make(times_[times], config);
    if (process == nullptr) return nullptr;
    SimulationResult ignored;
    const bool ran = process->run_iteration(&ignored);
    count_work(*process);
    if (ran) return process;
    process = SimulatedProcess::make(times_[times], config);
    process->learn(step_history_);
    return process;
  }

  void count_work(const SimulatedProcess& process) {
    const RuntimeStatistics statistics = process.runtime().statistics();
    operators_run_ += statistics.operators_seen + statistics.operators_replayed;
  }

  // What is copied ahead in a step is what has left in the two before it, so that under a new plan
  // it takes two steps until one goes as the later ones do. Where others come between them, what
  // such a step does not use would be away for good after them: there what leaves in one step is
  // learnt from a process of its own. Returns false if one of these steps fails.
  bool settle(SimulatedProcess& process, SimulatedProcess* earlier, const StepPlan& plan,
              SimulationResult* result) {
    if (!job_.tier.runs_beside) return true;
    if (earlier == nullptr) return process.run_iteration(result) && process.run_iteration(result);
    earlier->set_plan(plan);
    const bool ran = earlier->run_iteration(result);
    count_work(*earlier);
    if (ran) process.runtime().learn_departures(earlier->runtime());
    return ran;
  }
  bool takes_turns() const { return job_.tier.runs_beside && !config_.follows_itself; }

  // Simulates a candidate once. Returns its overhead; nothing if the simulation fails, or has a
  // greater overhead than `most_overhead`.
  std::optional<double> simulate_once(Candidate& candidate, size_t times, double most_overhead) {
    ++simulations_;
    SimulationConfig config = job_;
    config.budget_bytes -= config.budget_bytes / kMargin * times;
    const auto process = make_process(times, config);
    if (process == nullptr) return std::nullopt;
    candidate.plan.fingerprint = step_history_.last_fingerprint();
    process->set_plan(candidate.plan);
    SimulationResult result;
    const double most = std::min(job_.most_overhead, most_overhead);
    const auto earlier = takes_turns() ? make_process(times, config) : nullptr;
    config.most_overhead = std::min(job_.most_overhead, 2 * most);
    const bool has_settled = settle(*process, earlier.get(), candidate.plan, &result);
    const auto before = process->evictions();
    const std::vector<uint32_t> evicted_before(before.begin(), before.end());
    config.most_overhead = most;
    const bool ran = has_settled && process->run_iteration(&result);
    count_work(*process);
    if (!ran) return std::nullopt;
    process->report(&result);
    if (times == 0) {
      candidate.evictions.clear();
      for (const WeightedOutput& output : outputs_) {
        const size_t at = number(output.storage);
        candidate.evictions.push_back(process->evictions()[at] - evicted_before[at]);
      }
    }
    if (times == 0) candidate.overhead = result.overhead;
    return result.overhead +
           config_.search_share(result.prices, static_cast<double>(result.baseline_ns));
  }

  // Fills in the overheads. Returns false if a simulation fails, or if there is a `best` and the
  // candidate is no better.
  bool evaluate(Candidate& candidate, const Candidate* best) {
    candidate.overheads.clear();
    double sum = 0;
    for (size_t times = 0; times < times_.size(); ++times) {
      double most = job_.most_overhead;
      if (best != nullptr && times == 0) most = best->overheads[0];
      if (best != nullptr && times > 0) {  // may be worse: only its mean has to be better
        const auto others = static_cast<double>(times_.size() - 1 - times);
        most = best->score() * static_cast<double>(times_.size()) - sum - others;
      }
      const auto overhead = simulate_once(candidate, times, most);
      if (!overhead) return false;
      sum += *overhead;
      candidate.overheads.push_back(*overhead);
    }
    return best == nullptr || candidate.score() < best->score();
  }

  // Returns candidates, the best first. What a copy holds up is a guess until the step runs, and a
  // change that makes one plan with copies better is none for one without: where there is a tier,
  // half of the search is for plans by which nothing is copied that can leave in another way.
  std::vector<Candidate> find() {
    std::vector<Candidate> without;
    allow(has_tier() ? 2 : 1);
    std::vector<Candidate> found = portfolio({});  // the first of them is no plan
    if (has_tier()) {
      allow(2);
      without = portfolio({0, kLastToBeCopied, kLastToBeCopied});
      allow(3);  // twice that, with gaps
      improve(without);
      allow(1);
    }
    improve(found);
    for (Candidate& each : without) insert(found, std::move(each));
    return found;
  }

  // From now on one of so many parts of what is left of the search may be spent. A candidate that
  // is being tried is tried to its end, so that more may be spent already than was allowed.
  void allow(size_t parts) {
    const auto left = [&](auto all, auto spent) { return all > spent ? (all - spent) / parts : 0; };
    began_ = operators_run_;
    most_simulations_ = simulations_ + left(config_.simulations, simulations_);
    most_operators_ = operators_run_ + left(config_.operators, operators_run_);
  }

  void improve(std::vector<Candidate>& found) {
    if (found.empty()) return;
    climb(found.front());
    try_gaps(found.front());
  }

  static void insert(std::vector<Candidate>& found, Candidate candidate) {
    const auto worse = std::find_if(found.begin(), found.end(), [&](const Candidate& other) {
      return candidate.score() < other.score();
    });
    found.insert(worse, std::move(candidate));
  }

  // Returns all policies with which the step runs, as far as there is time, the best first. Where
  // pages can move, each policy is tried with every preference between windows and moves; moves are
  // tried only if nothing else has run, or with the best so far.
  std::vector<Candidate> portfolio(const CopyPrices& copies) {
    std::vector<Candidate> found;
    auto add = [&](const StepPlan& plan, bool only_best) {
      const uint64_t most = most_operators_ - began_;
      if (operators_run_ - began_ >= (found.empty() ? most : most / 2)) return;
      Candidate candidate;
      candidate.plan = plan;
      const bool has_best = only_best && !found.empty();
      if (!evaluate(candidate, has_best ? &found.front() : nullptr)) return;
      insert(found, std::move(candidate));
    };
    const auto prefers_places = [&] {
      return !found.empty() && found.front().plan.preference == Preference::kPlaces;
    };
    auto add_all = [&](const char* policy, double use_share, bool only_best) {
      StepPlan plan;
      plan.policy = policy;
      plan.use_share = use_share;
      plan.copies = found.empty() ? copies : found.front().plan.copies;
      plan.copies.use_share = 0;
      add(plan, only_best);
      if (job_.memory != MemoryModel::kPages) return;
      plan.preference = Preference::kPages;
      add(plan, true);
      plan.preference = Preference::kMoves;
      if (found.empty()) add(plan, true);
      plan.preference = Preference::kPlaces;
      if (prefers_places()) add(plan, true);
    };
    const auto try_places = [&] {
      if (job_.memory != MemoryModel::kPages || found.empty() || prefers_places()) return;
      StepPlan best = found.front().plan;
      best.preference = Preference::kPlaces;
      add(best, true);
    };
    // The order is that of their promise: a long step may not get to its end.
    add_all("needed-cost", 0, false);
    try_places();
    if (has_tier() && copies == CopyPrices()) {
      const auto best = [&] { return found.empty() ? StepPlan() : found.front().plan; };
      const bool has_pages = job_.memory == MemoryModel::kPages;
      for (const auto& plan : plans_with_other_copies(best(), has_pages)) add(plan, true);
      for (const auto& plan : plans_by_next_uses(best().preference)) add(plan, true);
    }
    for (const double share : {0.75, 0.5, 1.0, 0.25}) add_all("next-use", share, false);
    if (job_.memory == MemoryModel::kPages && !found.empty() &&
        found.front().plan.preference != Preference::kMoves) {
      StepPlan best = found.front().plan;
      best.preference = Preference::kMoves;
      add(best, true);
    }
    try_places();
    for (const char* policy : {"msps", "dtr-eq", "dtr", "coop"}) add_all(policy, 0, false);
    // These are mostly far behind: each simulation ends as soon as that shows.
    for (const char* policy : {"size", "dtr-local", "lru"}) add_all(policy, 0, true);
    return found;
  }

  // Tries plans that say what is dropped when, in place of `best`. They are found in a model
  // without pages, so that they are looked for under somewhat less than the budget, too.
  void try_gaps(Candidate& best) {
    constexpr size_t kSimulations = 27;  // as many as these candidates take
    if (best.overhead <= 1 || config_.simulations < kSimulations) return;
    GapModel model(times_[0]);
    for (const double share : {1.0, 0.97, 0.93}) {
      if (operators_run_ - began_ >= 2 * (most_operators_ - began_)) return;
      GapSearchConfig search;
      search.budget_bytes = static_cast<size_t>(static_cast<double>(job_.budget_bytes) * share);
      search.operators = std::min(kGapEvaluations * model.stages(), kGapOperators);
      search.seed = config_.seed;
      search.stop = job_.stop;
      const auto gaps = find_gaps(model, search);
      if (!gaps) return;
      for (const Preference preference :
           {Preference::kCheapest, Preference::kPages, Preference::kPlaces}) {
        if (job_.memory != MemoryModel::kPages && preference != Preference::kCheapest) continue;
        Candidate candidate;
        candidate.plan.gaps = model.dropped(gaps->choices);
        candidate.plan.copies = best.plan.copies;
        candidate.plan.preference = preference;
        if (evaluate(candidate, &best)) best = std::move(candidate);
      }
    }
  }

  void climb(Candidate& best) {
    if (outputs_.empty() || best.overhead <= 1) return;
    const auto may_go_on = [&] {
      return simulations_ < most_simulations_ && operators_run_ < most_operators_ &&
             !(job_.stop != nullptr && job_.stop->should_stop());
    };
    const bool may_copy = has_tier() && std::min(best.plan.copies.factor,
                                                 best.plan.copies.root_factor) < kLastToBeCopied;
    while (may_go_on()) {
      Candidate next;
      next.plan = best.plan;
      next.plan.weights.resize(outputs_.size(), 1.0F);
      if (may_copy && random_.below(8) == 0) {
        change(next.plan.copies);
      } else {
        change(next.plan.weights, best.evictions);
      }
      if (evaluate(next, &best)) best = std::move(next);
    }
  }

  bool has_tier() const { return job_.tier.capacity_bytes > 0; }

  void change(CopyPrices& copies) {
    constexpr double kFactors[] = {1.0 / 4, 1.0 / 2, 2, 4};
    const uint64_t which = random_.below(3);
    const double factor = kFactors[random_.below(std::size(kFactors))];
    for (double* each : {&copies.factor, &copies.root_factor}) {
      const bool is_changed = which == 2 || (which == 1) == (each == &copies.root_factor);
      if (is_changed) *each = std::clamp(*each * factor, 1 / kLastToBeCopied, kLastToBeCopied);
    }
  }

  void multiply(float& weight, double factor) const {
    constexpr double kLeast = 1e-4, kMost = 1e4;
    weight = static_cast<float>(std::clamp(weight * factor, kLeast, kMost));
  }

  void change(std::vector<float>& weights, const std::vector<uint32_t>& evictions) {
    constexpr double kFactors[] = {1.0 / 16, 1.0 / 4, 1.0 / 2, 2, 4, 16};
    const double factor = kFactors[random_.below(std::size(kFactors))];
    switch (random_.below(4)) {
      case 0: {  // the weights of all results of one operator
        const uint32_t name = outputs_[random_evicted(evictions)].name;
        for (size_t k = 0; k < weights.size(); ++k) {
          if (outputs_[k].name == name) multiply(weights[k], factor);
        }
        break;
      }
      case 1: {  // the weights of a stretch of the step
        const size_t length = std::max<size_t>(weights.size() >> (2 + random_.below(5)), 1);
        const size_t begin = random_.below(weights.size());
        const size_t end = std::min(begin + length, weights.size());
        for (size_t k = begin; k < end; ++k) multiply(weights[k], factor);
        break;
      }
      default: {  // the weights of single results, mostly of those that are evicted
        const size_t count = size_t{1} << random_.below(4);
        for (size_t k = 0; k < count; ++k) {
          const bool any = random_.below(4) == 0;
          const size_t at = any ? random_.below(weights.size()) : random_evicted(evictions);
          multiply(weights[at], factor);
        }
      }
    }
  }

  // Returns a random output among those that are evicted, or among all if none is.
  size_t random_evicted(const std::vector<uint32_t>& evictions) {
    const size_t start = random_.below(evictions.size());
    for (size_t k = 0; k < evictions.size(); ++k) {
      const size_t at = (start + k) % evictions.size();
      if (evictions[at] > 0) return at;
    }
    return start;
  }

  const PlannerConfig config_;
  SimulationConfig job_;
  Random random_;
  std::vector<Trace> times_;  // the step with the recorded times, then with perturbed ones
  const std::vector<WeightedOutput> outputs_;
  StepHistory step_history_;
  size_t simulations_ = 0, most_simulations_ = 0;
  uint64_t operators_run_ = 0, began_ = 0, most_operators_ = 0;
};

}  // namespace

std::vector<RankedPlan> find_plans(const Trace& step, const SimulationConfig& job,
                                   const PlannerConfig& config) {
  return Search(step, job, config).run();
}

BestPlan best_plan(const Trace& step, const SimulationConfig& job, const PlannerConfig& config,
                   std::span<const StepPlan> plans) {
  return Search(step, job, config).best_of(plans);
}

std::vector<WeightedOutput> weighted_outputs(const Trace& step) {
  std::vector<WeightedOutput> outputs;
  for (const TraceOperator& op : step.operators) {
    for (const StorageIndex output : step.outputs(op)) {
      if (step.storages[number(output)].bytes > 0) outputs.push_back({output, op.name});
    }
  }
  return outputs;
}

StepPlan for_job(const StepPlan& plan, std::span<const uint32_t> results,
                 std::span<const uint32_t> made) {
  std::unordered_map<uint32_t, uint32_t> places;  // by storage, among `made`
  for (uint32_t k = 0; k < made.size(); ++k) {
    if (made[k] != kNoStorage) places.emplace(made[k], k);
  }
  StepPlan own = plan;
  if (!plan.weights.empty()) own.weights.assign(made.size(), 1.0F);
  if (plan.gaps) own.gaps->clear();
  std::vector<uint32_t> by_result;
  for (size_t k = 0; k < results.size(); ++k) {
    const auto place = places.find(results[k]);
    by_result.push_back(place == places.end() ? kNoStorage : place->second);
    if (by_result[k] != kNoStorage && !plan.weights.empty()) {
      own.weights[by_result[k]] = plan.weights[k];
    }
  }
  if (!plan.gaps) return own;
  for (DroppedGap gap : *plan.gaps) {
    gap.output = by_result[gap.output];
    if (gap.after) gap.after = by_result[*gap.after];
    if (gap.output != kNoStorage && gap.after != kNoStorage) own.gaps->push_back(gap);
  }
  return own;
}

Trace with_other_times(const Trace& trace, double spread, uint64_t seed) {
  Random random(seed);
  Trace other = trace;
  for (TraceOperator& op : other.operators) {
    const double ns = static_cast<double>(op.cost_ns) * std::exp(spread * random.normal());
    op.cost_ns = static_cast<uint64_t>(std::llround(std::min(ns, 0x1p44)));
  }
  return other;
}

}  // namespace tidepool::remat
