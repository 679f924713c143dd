#include "tests/sim/program.h"

#include <algorithm>

#include "fmt/format.h"
#include "remat/policies/table/policy_table.h"
#include "tests/support/contents.h"

namespace tidepool::sim {
namespace {

const char* const kKindNames[static_cast<size_t>(Kind::kCount)] = {
    "kInput",         "kPure",      "kDraw",         "kView",        "kUpdate", "kOverwrite",
    "kPiece",         "kSideWrite", "kListWrite",    "kUnsupported", "kDrop",   "kDropLate",
    "kEvict",         "kEvictAll",  "kRead",         "kRawWrite",    "kEscape", "kReplace",
    "kFailingUpdate", "kEndStep",   "kRecordingOff", "kRecordingOn", "kFork",   "kCollective"};

// How often each kind occurs, in the order of Kind.
constexpr unsigned kWeights[static_cast<size_t>(Kind::kCount)] = {
    30, 200, 40, 25, 60, 30, 60, 15, 8, 8, 130, 20, 30, 6, 20, 6, 4, 4, 4, 6, 2, 4, 1, 12};

Kind random_kind(Random& random) {
  unsigned sum = 0;
  for (const unsigned weight : kWeights) sum += weight;
  auto at = static_cast<unsigned>(random.below(sum));
  size_t kind = 0;
  while (at >= kWeights[kind]) at -= kWeights[kind++];
  return static_cast<Kind>(kind);
}

uint32_t random_words(Random& random) {
  const uint64_t shape = random.below(16);
  if (shape < 10) return static_cast<uint32_t>(8 + random.below(56));
  if (shape < 15) return static_cast<uint32_t>(64 + random.below(192));
  return static_cast<uint32_t>(256 + random.below(512));
}

}  // namespace

Program Program::make(uint64_t seed) {
  Random random(seed);
  Program program;
  program.seed = seed;
  program.budget_bytes = 4096 * (2 + random.below(7));
  const std::span<const std::string> policies = remat::policy_names();
  program.policy = random.one_in(4) ? policies[0] : policies[random.below(policies.size())];
  const uint64_t chaos = random.below(12);
  if (chaos < 2) program.chaos = remat::Chaos::kOperator;
  if (chaos == 2) program.chaos = remat::Chaos::kAllocation;
  if (chaos == 3 || chaos == 4) program.chaos = remat::Chaos::kRandom;
  if (random.one_in(4)) program.limits.depth = static_cast<uint32_t>(1 + random.below(8));
  if (random.one_in(4)) program.limits.versions = static_cast<uint32_t>(1 + random.below(4));
  if (random.one_in(4)) program.limits.age_steps = static_cast<uint32_t>(random.below(2));
  if (random.one_in(8)) program.limits.records = 1 + random.below(12);
  program.allow_windows = !random.one_in(6);
  program.allow_remap = !program.allow_windows || !random.one_in(3);
  program.allow_moves = seed % 4 != 0;
  program.evict_singly = random.one_in(6);
  program.check_each_step = random.one_in(8);
  if (random.one_in(6)) program.fail_execute_at = 1 + random.below(12);
  const size_t count = 12 + random.below(52);
  for (size_t k = 0; k < count; ++k) {
    Operation operation;
    operation.kind = k < 2 ? Kind::kInput : random_kind(random);
    // Near operands make chains, far ones bring old tensors back.
    auto operand = [&] { return static_cast<uint32_t>(random.next()); };
    operation.a = operand();
    operation.b = operand();
    operation.c = operand();
    operation.words = random_words(random);
    operation.cost_ns = static_cast<uint32_t>(1 + random.below(1000));
    operation.scalar = random.next();
    program.operations.push_back(operation);
  }
  const bool copies =
      program.policy == "planned" || program.policy == "needed-cost" || program.policy == "delta";
  if (copies && !program.evict_singly && !random.one_in(4)) {
    program.tier_bytes = random.one_in(3) ? 1024 * random.below(32) + 512 : size_t{1} << 30;
    constexpr double kPrices[] = {0, 0.1, 1, 10};
    program.tier_ns_per_byte = kPrices[random.below(4)];
    if (random.one_in(4)) program.tier_refuses_every = 2 + random.below(4);
    if (program.chaos == remat::Chaos::kOperator && random.one_in(2)) {
      program.chaos = remat::Chaos::kOffload;
    }
  }
  return program;
}

std::string Program::text() const {
  std::string out = fmt::format(
      "// seed {}\nProgram program;\nprogram.seed = {};\nprogram.budget_bytes = {};\n"
      "program.policy = \"{}\";\nprogram.chaos = static_cast<remat::Chaos>({});\n"
      "program.limits = {{{}, {}, {}, {}}};\nprogram.allow_windows = {};\n"
      "program.allow_remap = {};\nprogram.allow_moves = {};\nprogram.evict_singly = {};\n"
      "program.fail_execute_at = {};\nprogram.tier_bytes = {};\nprogram.tier_ns_per_byte = {};\n"
      "program.tier_refuses_every = {};\nprogram.operations = {{\n",
      seed, seed, budget_bytes, policy, static_cast<int>(chaos), limits.depth, limits.versions,
      limits.age_steps, limits.records, allow_windows, allow_remap, allow_moves, evict_singly,
      fail_execute_at, tier_bytes, tier_ns_per_byte, tier_refuses_every);
  for (const Operation& each : operations) {
    out += fmt::format("    {{Kind::{}, {}, {}, {}, {}, {}, {}u}},\n",
                       kKindNames[static_cast<size_t>(each.kind)], each.a, each.b, each.c,
                       each.words, each.cost_ns, each.scalar);
  }
  return out + "};\n";
}

}  // namespace tidepool::sim
