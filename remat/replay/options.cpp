#include "remat/replay/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "allocator/base/size_text.h"
#include "fmt/format.h"

namespace tidepool::remat {

const char* const kReplayHelp =
    R"(usage: tidepool-replay TRACE... BUDGET [OPTIONS]

Runs a recorded trace through Tidepool's allocator, runtime and policies, over simulated memory and
a virtual clock, and says what a budget would cost. BUDGET is one of:

  --budget-ratio R       budget = R x the trace's peak without a budget
  --budget BYTES         such as 8GiB, 750MB or 123456
  --grid A:B:STEP        every ratio from A to B; writes CSV and SVG, one line for each policy
  --least-budget         none: say which is the least that the trace runs with, for each policy

  --policy P[,P...]      --list-policies names them all; default: that of jobs, which is
                         needed-cost until a step repeats itself, and then a plan found by
                         simulation of it: with one step in the trace, from the fifth iteration
                         on (not given: needed-cost)
  --memory M             exact: bytes are fungible; arena: one contiguous slab; pages (default):
                         virtual memory, windows and remapping
  --format F             tidepool (default), or dtr: logs of DTR's prototype
  --iterations N         run the trace N times and score the last (default 1); a job that fails
                         in any of them has failed
  --oracle               say what more knowledge than jobs have would give: from the second
                         iteration on all of the trace is known, and runs that would fail are
                         repeated, with other plans and under smaller limits
  --json                 one JSON object for each run on standard output
  --plan FILE            the job follows these plans, as `tidepool run --plan` does
  --write-plan FILE      look for plans for the trace's steps instead of running it
  --graph                write these steps as graphs for solvers, as JSON, instead
  --graph-seconds N      what the search in each such graph takes, about (default 0.5); the
                         same N always gives the same
  --energy FILE          with --graph: a table of what operators take in energy
  --least G              with --energy: what the graphs' search makes small: time (default) or
                         energy
  --most-time R, --most-energy R
                         with --energy: the most of either, as multiples of what the step takes
                         without a budget

  --search N             simulations at most in search of a plan (default 300; 0: no plan)
  --jobs N               runs at a time (default: processors)
  --csv FILE, --svg FILE where a grid goes (default: TRACE-MEMORY.csv and .svg, here)
  --evict E              together (default): windows and selections; singly: DTR's loop
  --partition B          yes: Coop's partitioning, cheap results at one end (default: no)
  --in-place B           no: what was written in place cannot be made again (default: yes)
  --tier SIZE@SPEED      contents may also go by copies: so many bytes to a place behind a link of
                         so many GB/s each way, such as 64GiB@25; each transfer is waited for
  --beside B             yes: with --tier, transfers run while operators do (default: no)
  --prefetch B           no: with --beside, copies come back only when they are read (default: yes)
  --roots B              no: with --tier, what cannot be recomputed stays (default: yes)
  --recompute B          no: with --tier, contents leave by copies only (default: yes)
  --end-resident B       yes: all that is alive at the end has to be resident at once
                         (default: yes for dtr)
  --lineage-limits B     no: lineage is not bounded (default: no for dtr)
  --mutate M             dtr: copy (default): a mutated tensor is a new storage; in-place: it is not
  --page BYTES           pages: the unit of mappings (default: 2 MiB on a GPU, 64 KiB on a CPU)
  --map-ns N             price of mapping one page elsewhere (default: the trace's)
  --drain-ns N           price of waiting for the device, each time before pages are mapped
                         elsewhere (default: the trace's)
  --copy-speed S         how many GB/s are copied within the device (default: the trace's)
  --ways W               how room is made: all (default), the cheapest of what the memory has;
                         windows, moves (windows that contents may move out of) or pages alone
  --log FILE             of one run: what is done for the job, line by line
  --history FILE         of one run: the same of all iterations, with their blocks and pages
)";

namespace {

constexpr const char* kOldPageOption = "--handle";  // the old name of --page, which still works

template <typename T>
T parse_number(const std::string& option, const std::string& text, T least, T most) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least) ||
      !(value <= most)) {
    throw UsageError(fmt::format("{}: '{}' is no number from {} to {}", option, text, least, most));
  }
  return value;
}

double parse_ratio(const std::string& option, const std::string& text) {
  return parse_number<double>(option, text, 0.001, 1000);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::vector<double> parse_grid(const std::string& option, const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() != 3) {
    throw UsageError(fmt::format("{}: '{}' is not A:B:STEP, such as 0.3:0.9:0.05", option, text));
  }
  const double first = parse_ratio(option, parts[0]);
  const double last = parse_ratio(option, parts[1]);
  const double step = parse_ratio(option, parts[2]);
  if (last < first) throw UsageError(fmt::format("{}: {} is below {}", option, last, first));
  constexpr double kMostPoints = 10000;
  if ((last - first) / step > kMostPoints) {
    throw UsageError(fmt::format("{}: more than {} points", option, kMostPoints));
  }
  std::vector<double> ratios;
  // The end may be passed by a millionth of a step, for rounding, and each point is rounded to the
  // number that was meant.
  for (size_t k = 0; first + static_cast<double>(k) * step <= last + step * 1e-6; ++k) {
    ratios.push_back(std::round((first + static_cast<double>(k) * step) * 1e6) / 1e6);
  }
  return ratios;
}

bool parse_flag(const std::string& option, const std::string& text) {
  if (text == "yes") return true;
  if (text == "no") return false;
  throw UsageError(fmt::format("{}: '{}'; expected yes or no", option, text));
}

size_t parse_bytes(const std::string& option, const std::string& text) {
  if (!text.empty() && text.back() == '%') {
    throw UsageError(fmt::format("{}: '{}'; a share of the peak is --budget-ratio", option, text));
  }
  try {
    return parse_size(text, 0);
  } catch (const std::invalid_argument& error) {
    throw UsageError(fmt::format("{}: {}", option, error.what()));
  }
}

void parse_tier(const std::string& option, const std::string& text, TierModel& out) {
  const std::vector<std::string> parts = split(text, '@');
  if (parts.size() != 2) {
    throw UsageError(fmt::format("{}: '{}' is not SIZE@SPEED, such as 64GiB@25", option, text));
  }
  out.capacity_bytes = parse_bytes(option, parts[0]);
  out.gb_per_second = parse_number<double>(option, parts[1], 0.001, 1e6);
}

template <typename T>
T parse_choice(const std::string& option, const std::string& text,
               std::initializer_list<std::pair<const char*, T>> choices) {
  std::string expected;
  for (const auto& [name, value] : choices) {
    if (text == name) return value;
    expected += (expected.empty() ? "" : ", ") + std::string(name);
  }
  throw UsageError(fmt::format("{}: '{}'; expected one of {}", option, text, expected));
}

struct Option {
  const char* name;
  std::function<void(const std::string& option, const std::string& value)> set;
};

using Text = const std::string&;

// What an option without a value sets; nullptr if there is no such option.
bool* flag_of(Text name, ReplayOptions& out) {
  if (name == "--help" || name == "-h") return &out.help;
  if (name == "--list-policies") return &out.list_policies;
  if (name == "--json") return &out.json;
  if (name == "--oracle") return &out.oracle;
  if (name == "--least-budget") return &out.least_budget;
  if (name == "--graph") return &out.graph;
  return nullptr;
}

std::vector<Option> options_of_runs(ReplayOptions& out) {
  return {
      {"--budget-ratio", [&](Text o, Text v) { out.ratios = {parse_ratio(o, v)}; }},
      {"--budget", [&](Text o, Text v) { out.budget_bytes = parse_bytes(o, v); }},
      {"--grid",
       [&](Text o, Text v) {
         out.ratios = parse_grid(o, v);
         out.grid = true;
       }},
      {"--policy", [&](Text, Text v) { out.policies = split(v, ','); }},
      {"--memory",
       [&](Text o, Text v) {
         out.memory = parse_choice<MemoryModel>(o, v,
                                                {{"exact", MemoryModel::kExact},
                                                 {"arena", MemoryModel::kArena},
                                                 {"pages", MemoryModel::kPages}});
       }},
      {"--format",
       [&](Text o, Text v) {
         out.format = parse_choice<TraceFormat>(
             o, v, {{"tidepool", TraceFormat::kTidepool}, {"dtr", TraceFormat::kDtr}});
       }},
      {"--iterations",
       [&](Text o, Text v) { out.iterations = parse_number<uint32_t>(o, v, 1, 1000); }},
  };
}

std::vector<Option> finer_options(ReplayOptions& out) {
  return {
      {"--jobs", [&](Text o, Text v) { out.jobs = parse_number<unsigned>(o, v, 1, 1024); }},
      {"--search",
       [&](Text o, Text v) { out.planner.simulations = parse_number<size_t>(o, v, 0, 1'000'000); }},
      {"--plan", [&](Text, Text v) { out.plan_path = v; }},
      {"--write-plan", [&](Text, Text v) { out.write_plan_path = v; }},
      {"--graph-seconds",
       [&](Text o, Text v) { out.graph_seconds = parse_number<double>(o, v, 0.001, 1e6); }},
      {"--energy", [&](Text, Text v) { out.energy_path = v; }},
      {"--least",
       [&](Text o, Text v) {
         out.goal.least_energy = parse_choice<bool>(o, v, {{"time", false}, {"energy", true}});
       }},
      {"--most-time", [&](Text o, Text v) { out.goal.most_time = parse_ratio(o, v); }},
      {"--most-energy", [&](Text o, Text v) { out.goal.most_energy = parse_ratio(o, v); }},
      {"--log", [&](Text, Text v) { out.log_path = v; }},
      {"--history", [&](Text, Text v) { out.history_path = v; }},
      {"--csv", [&](Text, Text v) { out.csv_path = v; }},
      {"--svg", [&](Text, Text v) { out.svg_path = v; }},
      {"--evict",
       [&](Text o, Text v) {
         out.evict_singly = parse_choice<bool>(o, v, {{"together", false}, {"singly", true}});
       }},
      {"--partition", [&](Text o, Text v) { out.partition = parse_flag(o, v); }},
      {"--in-place", [&](Text o, Text v) { out.record_in_place = parse_flag(o, v); }},
      {"--recompute", [&](Text o, Text v) { out.recompute = parse_flag(o, v); }},
      {"--beside", [&](Text o, Text v) { out.tier.runs_beside = parse_flag(o, v); }},
      {"--prefetch", [&](Text o, Text v) { out.prefetches = parse_flag(o, v); }},
      {"--roots", [&](Text o, Text v) { out.offloads_roots = parse_flag(o, v); }},
      {"--tier", [&](Text o, Text v) { parse_tier(o, v, out.tier); }},
      {"--end-resident", [&](Text o, Text v) { out.end_resident = parse_flag(o, v); }},
      {"--lineage-limits", [&](Text o, Text v) { out.lineage_limits = parse_flag(o, v); }},
      {"--mutate",
       [&](Text o, Text v) {
         out.mutation = parse_choice<DtrMutation>(
             o, v, {{"copy", DtrMutation::kCopy}, {"in-place", DtrMutation::kInPlace}});
       }},
      {"--page",
       [&](Text o, Text v) {
         out.page_bytes = parse_bytes(o, v);
         const size_t bytes = out.page_bytes;
         if (bytes < 1024 || bytes > (size_t{1} << 30) || (bytes & (bytes - 1)) != 0) {
           throw UsageError(o + ": expected a power of two from 1KiB to 1GiB");
         }
       }},
      {"--map-ns",
       [&](Text o, Text v) { out.map_ns = parse_number<uint64_t>(o, v, 0, 1'000'000'000); }},
      {"--drain-ns",
       [&](Text o, Text v) { out.drain_ns = parse_number<uint64_t>(o, v, 0, 1'000'000'000); }},
      {"--copy-speed",  // a GB/s is a byte in a nanosecond
       [&](Text o, Text v) { out.copy_bytes_per_ns = parse_number<double>(o, v, 0.001, 1e6); }},
      {"--ways",
       [&](Text o, Text v) {
         out.ways = parse_choice<RoomWays>(o, v,
                                           {{"all", RoomWays::kAll},
                                            {"windows", RoomWays::kWindows},
                                            {"moves", RoomWays::kMoves},
                                            {"pages", RoomWays::kPages}});
       }},
  };
}

void check_plans(const ReplayOptions& options) {
  const bool other = options.oracle || options.least_budget || !options.log_path.empty();
  if (!options.plan_path.empty()) {
    if (options.iterations == 1) {
      throw UsageError("--plan is followed after one iteration: it goes with --iterations");
    }
    const bool planned = std::all_of(
        options.policies.begin(), options.policies.end(),
        [](const std::string& name) { return name == "default" || name == kDefaultPolicy; });
    if (other || !planned) {
      throw UsageError("--plan goes with --policy default, without --oracle or --log");
    }
  }
  const bool bounded = options.goal.least_energy || std::isfinite(options.goal.most_time) ||
                       std::isfinite(options.goal.most_energy);
  if ((bounded || !options.energy_path.empty()) && !options.graph) {
    throw UsageError("--energy, --least, --most-time and --most-energy go with --graph");
  }
  if (options.graph_seconds > 0 && !options.graph) {
    throw UsageError("--graph-seconds goes with --graph");
  }
  if (bounded && options.energy_path.empty()) {
    throw UsageError("--least, --most-time and --most-energy go with --energy");
  }
  if (options.write_plan_path.empty() && !options.graph) return;
  const bool one = options.traces.size() == 1 && options.ratios.size() <= 1 && !options.grid;
  if (!one || other || !options.plan_path.empty()) {
    throw UsageError("--write-plan and --graph go with one trace and budget");
  }
}

void check(const ReplayOptions& options) {
  if (options.help || options.list_policies) return;
  if (options.traces.empty()) throw UsageError("no trace is named");
  const bool given = options.budget_bytes > 0 || !options.ratios.empty();
  if (given == options.least_budget) {
    throw UsageError("expected one of --budget-ratio, --budget, --grid and --least-budget");
  }
  if (options.least_budget && (options.oracle || options.iterations > 1)) {
    throw UsageError("--least-budget is of one iteration, without --oracle");
  }
  if (!options.grid && !(options.csv_path + options.svg_path).empty()) {
    throw UsageError("--csv and --svg go with --grid");
  }
  const bool one_run = options.traces.size() == 1 && options.policies.size() == 1 &&
                       options.ratios.size() <= 1 && !options.grid;
  if (!options.log_path.empty() && (!one_run || options.iterations > 1)) {
    throw UsageError("--log goes with one trace, policy, budget and iteration");
  }
  if (!options.history_path.empty() && (!one_run || options.oracle || !options.log_path.empty())) {
    throw UsageError("--history goes with one trace, policy and budget, without --oracle or --log");
  }
  check_plans(options);
  if (!options.recompute && options.tier.capacity_bytes == 0) {
    throw UsageError("--recompute no goes with --tier");
  }
  if (options.oracle && options.iterations == 1) {
    throw UsageError("--oracle knows the trace after one iteration: it goes with --iterations");
  }
  if (options.traces.size() > 1 && !(options.csv_path + options.svg_path).empty()) {
    throw UsageError("--csv and --svg go with one trace");
  }
  for (const std::string& policy : options.policies) {
    try {
      if (policy != "default") check_policy(policy);
    } catch (const std::invalid_argument& error) {
      throw UsageError(fmt::format("--policy: {}", error.what()));
    }
  }
}

}  // namespace

ReplayOptions parse_options(std::span<const std::string> arguments) {
  ReplayOptions out;
  std::vector<Option> known = options_of_runs(out);
  for (Option& option : finer_options(out)) known.push_back(std::move(option));
  int budgets = 0;
  for (size_t k = 0; k < arguments.size(); ++k) {
    std::string name = arguments[k];
    if (name.empty() || name[0] != '-' || name == "-") {
      out.traces.push_back(name);
      continue;
    }
    if (bool* const flag = flag_of(name, out)) {
      *flag = true;
      continue;
    }
    std::optional<std::string> value;
    if (const size_t equals = name.find('='); equals != std::string::npos) {
      value = name.substr(equals + 1);
      name = name.substr(0, equals);
    }
    if (name == kOldPageOption) name = "--page";
    const auto option = std::find_if(known.begin(), known.end(),
                                     [&](const Option& each) { return name == each.name; });
    if (option == known.end()) throw UsageError(fmt::format("unknown option {}", name));
    if (!value) {
      if (++k == arguments.size()) throw UsageError(fmt::format("{}: a value is missing", name));
      value = arguments[k];
    }
    budgets += name == "--budget" || name == "--budget-ratio" || name == "--grid";
    option->set(name, *value);
  }
  if (budgets > 1) throw UsageError("more than one of --budget-ratio, --budget and --grid");
  check(out);
  return out;
}

}  // namespace tidepool::remat
