#include "tests/support/operation_fuzz.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <stdexcept>

#include "tests/support/death.h"
#include "tests/support/random.h"

#ifdef TIDEPOOL_SANITIZED
extern "C" void __sanitizer_set_death_callback(void (*callback)());
#endif

namespace tidepool::test {
namespace {

#ifdef TIDEPOOL_SANITIZED
constexpr uint64_t kOperations = 20'000;
#else
constexpr uint64_t kOperations = 100'000;
#endif
constexpr uint64_t kOperationsOfFullRun = 10'000'000;
constexpr uint64_t kListsThatShowAll = 20;
constexpr const char* kSeedVariable = "TIDEPOOL_FUZZ_SEED";

// What runs just now; for reports from signal handlers, too.
struct Running {
  const char* model = nullptr;
  uint64_t seed = 0;
  size_t index = 0;
};
Running g_running;
std::vector<uint64_t> g_effects;  // by kind

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

void report_running() {
  if (g_running.model == nullptr) return;
  const auto seed = static_cast<unsigned long long>(g_running.seed);
  std::fprintf(stderr, "fuzzing %s: failed at operation %zu of seed %llu; %s=%llu shrinks it\n",
               g_running.model, g_running.index, seed, kSeedVariable, seed);
}

// While it lives, a failed check that ends the process says what was running.
class ReportsAborts {
 public:
  ReportsAborts() {
    s_previous = std::signal(SIGABRT, [](int signal) {
      report_running();
      std::signal(signal, s_previous);
      std::raise(signal);
    });
#ifdef TIDEPOOL_SANITIZED
    __sanitizer_set_death_callback(report_running);
#endif
  }
  ~ReportsAborts() {
    std::signal(SIGABRT, s_previous);
    g_running = {};
  }
  ReportsAborts(const ReportsAborts&) = delete;
  ReportsAborts& operator=(const ReportsAborts&) = delete;

 private:
  static inline void (*s_previous)(int) = SIG_DFL;
};

// The list of a seed. Each list has weights of its own: some kinds are rare in it, or missing.
std::vector<Operation> random_list(uint64_t seed, std::span<const OperationKind> kinds,
                                   size_t length) {
  Random random(seed);
  std::vector<unsigned> bounds;  // ends of the kinds' shares
  unsigned sum = 0;
  for (const OperationKind& kind : kinds) {
    constexpr unsigned kFactors[] = {0, 1, 2, 2, 2, 2, 4, 8};
    bounds.push_back(sum += kind.weight * kFactors[random.below(std::size(kFactors))]);
  }
  std::vector<Operation> list;
  while (list.size() < length && sum > 0) {
    const uint64_t choice = random.below(sum);
    Operation op;
    while (bounds[op.kind] <= choice) ++op.kind;
    op.a = static_cast<uint32_t>(random.next());
    op.b = static_cast<uint32_t>(random.next());
    op.c = static_cast<uint32_t>(random.next());
    list.push_back(op);
  }
  return list;
}

// In a process of its own, since a failed check aborts.
bool fails(uint64_t seed, std::span<const Operation> list, const detail::RunList& run) {
  return status_of_child([&] {
           try {
             run(seed, list);
             return 0;
           } catch (const std::exception& error) {
             std::fprintf(stderr, "of %zu operations: %s\n", list.size(), error.what());
             return 1;
           }
         }) != 0;
}

// Leaves out operations as long as the list still fails.
std::vector<Operation> shrink(uint64_t seed, std::vector<Operation> list,
                              const detail::RunList& run) {
  for (size_t chunk = list.size(); chunk > 0; chunk /= 2) {
    for (size_t first = 0; first < list.size();) {
      std::vector<Operation> candidate = list;
      const auto begin = candidate.begin() + static_cast<std::ptrdiff_t>(first);
      const size_t count = std::min(chunk, candidate.size() - first);
      candidate.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
      if (fails(seed, candidate, run)) {
        list = candidate;
      } else {
        first += chunk;
      }
    }
  }
  return list;
}

std::string as_text(const char* model, uint64_t seed, std::span<const Operation> list,
                    std::span<const OperationKind> kinds) {
  std::string text = fmt::format("test::replay<{}>({}, {{\n", model, seed);
  for (const Operation& op : list) {
    text += fmt::format("    {{{}::{}, {}u, {}u, {}u}},\n", model, kinds[op.kind].name, op.a, op.b,
                        op.c);
  }
  return text + "});";
}

std::string place_text(std::source_location place) {
  return fmt::format("{}:{}", place.file_name(), place.line());
}

}  // namespace

void expect(bool holds, std::source_location place) {
  if (!holds) [[unlikely]]
    throw std::logic_error(place_text(place));
}

void fail_unequal(const std::string& found, const std::string& expected,
                  std::source_location place) {
  throw std::logic_error(fmt::format("{}: {}, expected {}", place_text(place), found, expected));
}

FuzzPlan fuzz_plan(size_t length) {
  if (std::getenv(kSeedVariable) != nullptr) return {from_environment(kSeedVariable, 0), 1};
  const bool full = std::getenv("TIDEPOOL_FULL") != nullptr;
  const uint64_t operations =
      from_environment("TIDEPOOL_FUZZ_OPERATIONS", full ? kOperationsOfFullRun : kOperations);
  return {1, (operations + length - 1) / length};
}

namespace detail {

void begin_operation(size_t index) { g_running.index = index; }

void end_operation(unsigned kind, bool had_effect) { g_effects[kind] += had_effect; }

std::string fuzz_lists(const char* model, std::span<const OperationKind> kinds, size_t length,
                       const RunList& run) {
  const FuzzPlan plan = fuzz_plan(length);
  g_effects.assign(kinds.size(), 0);
  if (std::getenv(kSeedVariable) != nullptr) {
    const std::vector<Operation> list = random_list(plan.first_seed, kinds, length);
    if (!fails(plan.first_seed, list, run)) return "";
    return as_text(model, plan.first_seed, shrink(plan.first_seed, list, run), kinds);
  }
  const ReportsAborts reports;
  for (uint64_t seed = plan.first_seed; seed < plan.first_seed + plan.lists; ++seed) {
    g_running = {model, seed, 0};
    try {
      run(seed, random_list(seed, kinds, length));
    } catch (const std::exception& error) {
      report_running();
      return error.what();
    }
  }
  for (size_t kind = 0; kind < kinds.size() && plan.lists >= kListsThatShowAll; ++kind) {
    if (g_effects[kind] == 0) return fmt::format("{} never had anything to do", kinds[kind].name);
  }
  return "";
}

}  // namespace detail

}  // namespace tidepool::test
