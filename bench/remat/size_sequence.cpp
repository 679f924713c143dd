// What the first step of each size costs a job whose steps change their size at random, beside the
// second step of that size, and beside methods that checkpoint blocks (bench/remat/checkpoints):
// Mimose, which foresees sizes that it has not met, and one plan for the largest size. A trace has
// each of its sizes twice in a row (bench/new_sizes.py). Usage:
// tidepool_size_sequence TRACE... [--measured N], N: the steps in which Mimose measures; or
// tidepool_size_sequence TRACE... --foresight: how well sizes can be foreseen.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/remat/checkpoints/checkpointed_step.h"
#include "bench/remat/checkpoints/mimose.h"
#include "fmt/format.h"
#include "remat/plan/follow/step_digest.h"
#include "remat/plan/simulator.h"
#include "remat/simulate/job/step_trace.h"
#include "remat/trace/trace_format.h"
#include "remat/trace/trace_peak.h"

namespace tidepool::remat {
namespace {

constexpr double kRatios[] = {0.9, 0.8, 0.7, 0.6, 0.5, 0.4};
// What Mimose sets aside for its errors, as shares of the budget: the least of these with which all
// steps fit is taken, so that nobody could have set it better.
constexpr double kBuffers[] = {0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7};
constexpr double kForesightRatio = 0.7;
// Mimose plans for texts in steps of 5 tokens of 512: this share of the largest size.
constexpr double kQuantum = 0.01;

// SizedStep: the first step of a size.
struct SizedStep {
  Trace trace;
  size_t input_bytes = 0, peak_bytes = 0;
  uint64_t baseline_ns = 0;
  std::unique_ptr<CheckpointedStep> blocks;  // null if it does something else than the largest
};

// The bytes that come from outside during a step: new inputs, and copies from the host.
size_t input_bytes(const Trace& trace, size_t begin, size_t end) {
  size_t bytes = 0;
  for (size_t k = begin; k < end; ++k) {
    const TraceEvent& event = trace.events[k];
    if (event.kind == EventKind::kRoot) {
      const TraceStorage& root = trace.storages[event.index];
      const bool input = root.kind == RootKind::kInput || root.kind == RootKind::kOther;
      bytes += input ? root.bytes : 0;
    }
    if (event.kind != EventKind::kOperator) continue;
    const TraceOperator& op = trace.operators[event.index];
    if (op.recordable || op.reads > 0 || op.writes > 0) continue;
    for (const StorageIndex output : trace.outputs(op)) {
      bytes += trace.storages[number(output)].bytes;
    }
  }
  return bytes;
}

// The first of each two steps. Throws: std::runtime_error if the second does something else.
std::vector<SizedStep> sized_steps(const Trace& trace) {
  std::vector<SizedStep> steps;
  size_t begin = 0, count = 0;
  uint64_t digest = 0;
  for (size_t k = 0; k < trace.events.size(); ++k) {
    if (trace.events[k].kind != EventKind::kStep) continue;
    Trace step = step_trace(trace, begin, k);
    const uint64_t own = step_digest(step, trace.facts.alignment);
    if (count++ % 2 == 0) {
      SizedStep& first = steps.emplace_back();
      first.input_bytes = input_bytes(trace, begin, k);
      first.peak_bytes = trace_peak(step).peak_bytes;
      first.baseline_ns = step.baseline_ns();
      first.trace = std::move(step);
    } else if (own != digest) {
      throw std::runtime_error(fmt::format("{}: step {} differs", trace.facts.name, count));
    }
    digest = own;
    begin = k + 1;
  }
  return steps;
}

// Sequence: what the steps of one method cost.
struct Sequence {
  std::vector<uint64_t> first_ns, second_ns;  // by size
  bool failed = false;
  SimulationResult result;
};

Sequence run_job(const Trace& trace, const SimulationConfig& config) {
  Sequence sequence;
  uint64_t before = 0;
  const auto step_ended = [&](uint64_t now) {
    auto& times = sequence.first_ns.size() == sequence.second_ns.size() ? sequence.first_ns
                                                                        : sequence.second_ns;
    times.push_back(now - before);
    before = now;
  };
  sequence.result = simulate(trace, config, nullptr, nullptr, step_ended);
  sequence.failed = sequence.result.status != SimulationStatus::kOk;
  return sequence;
}

// The steps' compute / their compute without a budget, from step `begin` on.
double overhead(const std::vector<SizedStep>& steps, const std::vector<uint64_t>& ns,
                size_t begin = 0) {
  double sum = 0, baseline = 0;
  for (size_t k = begin; k < steps.size(); ++k) {
    sum += static_cast<double>(ns[k]);
    baseline += static_cast<double>(steps[k].baseline_ns);
  }
  return sum / baseline;
}

std::string shown(const std::vector<SizedStep>& steps, const Sequence& sequence, size_t begin = 0) {
  return sequence.failed ? "-" : fmt::format("{:.4f}", overhead(steps, sequence.first_ns, begin));
}

Sequence run_mimose(const std::vector<SizedStep>& steps, size_t budget_bytes, size_t measured,
                    double buffer) {
  Sequence sequence;
  double largest = 0;
  for (const SizedStep& step : steps) {
    largest = std::max(largest, static_cast<double>(step.input_bytes));
  }
  Mimose mimose(kQuantum * largest);
  const auto planned_bytes = static_cast<size_t>((1 - buffer) * static_cast<double>(budget_bytes));
  for (size_t k = 0; k < steps.size(); ++k) {
    const auto size = static_cast<double>(steps[k].input_bytes);
    CheckpointedCost cost;
    if (k < measured) {
      mimose.measure(size, *steps[k].blocks);
      cost = steps[k].blocks->measuring_cost();
    } else {
      cost = steps[k].blocks->cost(mimose.plan(size, planned_bytes));
    }
    if (cost.peak_bytes > budget_bytes) return {{}, {}, true, {}};
    sequence.first_ns.push_back(steps[k].baseline_ns + cost.replay_ns);
  }
  return sequence;
}

Sequence run_sublinear(const std::vector<SizedStep>& steps, const SizedStep& largest,
                       size_t budget_bytes) {
  Sequence sequence;
  const auto plan = sublinear_plan(*largest.blocks, budget_bytes);
  if (!plan) return {{}, {}, true, {}};
  for (const SizedStep& step : steps) {
    const CheckpointedCost cost = step.blocks->cost(*plan);
    if (cost.peak_bytes > budget_bytes) return {{}, {}, true, {}};
    sequence.first_ns.push_back(step.baseline_ns + cost.replay_ns);
  }
  return sequence;
}

struct Sizes {
  Trace trace;
  std::vector<SizedStep> steps;
  size_t largest = 0;       // the step of the highest peak
  bool checkpoints = true;  // whether all steps do the same with values of other sizes
};

Sizes read_sizes(const std::string& path) {
  Sizes sizes;
  sizes.trace = read_trace(path);
  sizes.steps = sized_steps(sizes.trace);
  for (size_t k = 0; k < sizes.steps.size(); ++k) {
    if (sizes.steps[k].peak_bytes > sizes.steps[sizes.largest].peak_bytes) sizes.largest = k;
  }
  const StepBlocks blocks = find_blocks(sizes.steps[sizes.largest].trace);
  for (SizedStep& step : sizes.steps) {
    sizes.checkpoints &= step.trace.operators.size() == blocks.operators;
    if (!sizes.checkpoints) break;
    step.blocks = std::make_unique<CheckpointedStep>(step.trace, blocks);
  }
  const auto smallest =
      std::min_element(sizes.steps.begin(), sizes.steps.end(),
                       [](const auto& a, const auto& b) { return a.peak_bytes < b.peak_bytes; });
  const SizedStep& largest = sizes.steps[sizes.largest];
  fmt::print(stderr,
             "{}: {} sizes, peaks of {} to {} MiB, no less than {:.2f} of that needed, {} "
             "operators, {} blocks\n",
             sizes.trace.facts.name, sizes.steps.size(), smallest->peak_bytes >> 20,
             largest.peak_bytes >> 20,
             static_cast<double>(trace_peak(largest.trace).floor_bytes) /
                 static_cast<double>(largest.peak_bytes),
             blocks.operators, blocks.ends.size());
  return sizes;
}

std::string mimose_columns(const Sizes& sizes, size_t budget_bytes, size_t measured) {
  if (!sizes.checkpoints) return "- | - | -";
  for (const double buffer : kBuffers) {
    const Sequence sequence = run_mimose(sizes.steps, budget_bytes, measured, buffer);
    if (sequence.failed) continue;
    return fmt::format("{} | {} | {}", shown(sizes.steps, sequence, measured),
                       shown(sizes.steps, sequence), buffer);
  }
  return "- | - | -";
}

// ForesightErrors: the greatest errors, as shares, of peaks and of compute.
struct ForesightErrors {
  double peak = 0, time = 0;
};

std::vector<StorageIndex> outputs_of(const Trace& trace) {
  std::vector<StorageIndex> outputs;
  for (const TraceOperator& op : trace.operators) {
    for (const StorageIndex output : trace.outputs(op)) outputs.push_back(output);
  }
  return outputs;
}

// Foresees steps from the first `learned` of them: the bytes of each result and the cost of each
// operator are quadratics of the bytes of the input. Requires: all steps do the same.
ForesightErrors foresee(const std::vector<SizedStep>& steps, size_t learned) {
  const size_t operators = steps[0].trace.operators.size();
  std::vector<std::vector<Quadratic::Point>> bytes(outputs_of(steps[0].trace).size());
  std::vector<std::vector<Quadratic::Point>> costs(operators);
  for (size_t at = 0; at < learned; ++at) {
    const Trace& trace = steps[at].trace;
    const auto size = static_cast<double>(steps[at].input_bytes);
    const auto outputs = outputs_of(trace);
    for (size_t k = 0; k < bytes.size(); ++k) {
      bytes[k].push_back({size, static_cast<double>(trace.storages[number(outputs[k])].bytes)});
    }
    for (size_t k = 0; k < operators; ++k) {
      costs[k].push_back({size, static_cast<double>(trace.operators[k].cost_ns)});
    }
  }
  const std::vector<Quadratic> bytes_of(bytes.begin(), bytes.end());
  const std::vector<Quadratic> cost_of(costs.begin(), costs.end());
  ForesightErrors errors;
  for (size_t at = learned; at < steps.size(); ++at) {
    const auto size = static_cast<double>(steps[at].input_bytes);
    Trace foreseen = steps[at].trace;
    const auto outputs = outputs_of(foreseen);
    for (size_t k = 0; k < bytes_of.size(); ++k) {
      const double guess = std::max(bytes_of[k](size), 0.0);
      foreseen.storages[number(outputs[k])].bytes = static_cast<size_t>(std::llround(guess));
    }
    for (size_t k = 0; k < operators; ++k) {
      const double guess = std::max(cost_of[k](size), 0.0);
      foreseen.operators[k].cost_ns = static_cast<uint64_t>(std::llround(guess));
    }
    const auto error = [](double guess, double found) { return std::abs(guess / found - 1); };
    errors.peak = std::max(errors.peak, error(static_cast<double>(trace_peak(foreseen).peak_bytes),
                                              static_cast<double>(steps[at].peak_bytes)));
    errors.time = std::max(errors.time, error(static_cast<double>(foreseen.baseline_ns()),
                                              static_cast<double>(steps[at].baseline_ns)));
  }
  return errors;
}

void print_foresight(const std::string& path) {
  const Sizes sizes = read_sizes(path);
  if (!sizes.checkpoints) return;
  std::string columns;
  for (const size_t learned : {2, 3, 10}) {
    if (learned >= sizes.steps.size()) continue;
    const ForesightErrors errors = foresee(sizes.steps, learned);
    columns += fmt::format(" {:.2f} | {:.2f} |", 100 * errors.peak, 100 * errors.time);
  }
  // What a job foresees, from the sizes that it has had so far.
  SimulationConfig job;
  job.policy = "planned";
  job.planner.simulations = 0;
  job.budget_bytes = static_cast<size_t>(
      kForesightRatio * static_cast<double>(sizes.steps[sizes.largest].peak_bytes));
  const ForesightStatistics found = run_job(sizes.trace, job).result.foresight;
  fmt::print("| {} |{} {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n", sizes.trace.facts.name,
             columns, found.steps, found.kept, 100 * found.mean_bytes_error(),
             100 * found.most_bytes_error, 100 * found.mean_time_error(),
             100 * found.most_time_error);
  std::fflush(stdout);
}

void measure(const std::string& path, size_t measured) {
  const Sizes sizes = read_sizes(path);
  const std::vector<SizedStep>& steps = sizes.steps;
  for (const double ratio : kRatios) {
    SimulationConfig job;
    job.step_history_at_once = false;
    job.budget_bytes =
        static_cast<size_t>(ratio * static_cast<double>(steps[sizes.largest].peak_bytes));
    job.policy = "planned";
    const Sequence ours = run_job(sizes.trace, job);
    std::string second = "-", worst = "-", plans = "-";
    if (!ours.failed) {
      second = fmt::format("{:.4f}", overhead(steps, ours.second_ns));
      double most = 0;
      for (size_t k = 0; k < steps.size(); ++k) {
        most = std::max(
            most, static_cast<double>(ours.first_ns[k]) / static_cast<double>(ours.second_ns[k]));
      }
      worst = fmt::format("{:.3f}", most);
      plans = fmt::format("{} of {}", ours.result.foreseen_plans, ours.result.foreseen_tried);
    }
    job.policy = "needed-cost";
    const Sequence needed = run_job(sizes.trace, job);
    job.memory = MemoryModel::kExact;
    job.policy = "planned";
    const Sequence fungible = run_job(sizes.trace, job);
    job.policy = "dtr";
    job.evict_singly = true;
    const Sequence dtr = run_job(sizes.trace, job);
    std::string sublinear = "-";
    if (sizes.checkpoints) {
      sublinear = shown(steps, run_sublinear(steps, steps[sizes.largest], job.budget_bytes));
    }
    fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", sizes.trace.facts.name,
               ratio, shown(steps, ours), second, worst, plans, shown(steps, fungible),
               mimose_columns(sizes, job.budget_bytes, measured), sublinear, shown(steps, needed),
               shown(steps, dtr));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace tidepool::remat

int main(int count, char** arguments) {
  size_t measured = 10;
  bool foresight = false;
  std::vector<std::string> paths;
  for (int k = 1; k < count; ++k) {
    const std::string text = arguments[k];
    if (text == "--measured" && k + 1 < count) {
      measured = std::stoul(arguments[++k]);
    } else if (text == "--foresight") {
      foresight = true;
    } else {
      paths.push_back(text);
    }
  }
  if (foresight) {
    fmt::print(
        "| trace | peak, 2 sizes % | time | peak, 3 sizes % | time | peak, 10 sizes % | time | "
        "foreseen | kept | bytes % | worst | time % | worst |\n| --- | --- | --- | --- | --- | --- "
        "| "
        "--- | --- | --- | --- | --- | --- | --- |\n");
    for (const std::string& path : paths) tidepool::remat::print_foresight(path);
    return 0;
  }
  fmt::print(
      "| trace | ratio | first | second | worst | plans | fungible | mimose | measuring | "
      "set aside | sublinear | need1 | dtr |\n| --- | --- | --- | --- | --- | --- | --- | --- | "
      "--- "
      "| --- | --- | --- | --- |\n");
  for (const std::string& path : paths) tidepool::remat::measure(path, measured);
  return 0;
}
