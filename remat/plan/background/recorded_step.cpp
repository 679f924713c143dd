#include "remat/plan/background/recorded_step.h"

#include <algorithm>
#include <cmath>

#include "remat/lineage/lineage.h"
#include "remat/plan/search/planner.h"

namespace tidepool::remat {
namespace {

// The bytes of all storages of a recording, in the order of its events.
std::vector<size_t> storage_bytes(const JobEvents& job) {
  std::vector<size_t> bytes;
  const size_t* output = job.output_bytes.data();
  for (const JobEvent& event : job.events) {
    if (event.kind == EventKind::kRoot) bytes.push_back(event.bytes);
    if (event.kind != EventKind::kOperator) continue;
    bytes.insert(bytes.end(), output, output + event.outputs);
    output += event.outputs;
  }
  return bytes;
}

}  // namespace

void RecordedStep::note_storage(const Storage& storage) {
  if (storage.dead || storage.observer_number == 0) return;
  if (by_number.size() <= storage.step_number) {
    by_number.resize(storage.step_number + 1, kNoStorage);
  }
  by_number[storage.step_number] = storage.observer_number - 1;
}

void RecordedStep::note(const ObservedCall& call) {
  positions.push_back(call.position);
  for (const Storage* output : call.outputs) {
    if (output == nullptr) continue;
    outputs.push_back(output->dead ? kNoStorage : output->observer_number - 1);
  }
  if (call.position == ObservedCall::kNoPosition) return;  // storages may have no numbers
  for (const Operand& operand : call.operands) note_storage(*operand.storage);
  for (const Storage* output : call.outputs) {
    if (output != nullptr) note_storage(*output);
  }
}

SimulationConfig RecordedStep::simulated_as(SimulationConfig job) const {
  if (job.budget_bytes == 0) job.budget_bytes = limit_bytes;
  const size_t known_bytes = std::min(resident_bytes, allocated_bytes);
  job.budget_bytes -= std::min(allocated_bytes - known_bytes, job.budget_bytes);
  job.tier = tier;
  job.offloads_roots = offloads_roots;
  return job;
}

Trace RecordedStep::trace(const TraceFacts& facts) const {
  TraceBuilder builder(facts);
  play(*events, builder);
  return builder.take();
}

StepPlan RecordedStep::for_job(const StepPlan& plan, const Trace& trace) const {
  std::vector<uint32_t> results;
  for (const WeightedOutput& output : weighted_outputs(trace)) {
    results.push_back(static_cast<uint32_t>(number(output.storage)));
  }
  return remat::for_job(plan, results, outputs);
}

Trace foreseen_trace(const RecordedStep& step, const StepList& foreseen, const TraceFacts& facts) {
  JobEvents job = *step.events;
  const std::vector<size_t> before = storage_bytes(job);
  std::vector<size_t> bytes = before;
  for (size_t n = 0; n < std::min(step.by_number.size(), foreseen.bytes.size()); ++n) {
    if (step.by_number[n] != kNoStorage) bytes[step.by_number[n]] = foreseen.bytes[n];
  }
  const std::vector<uint64_t> call_ns = foreseen.call_ns();
  size_t storage = 0, output = 0, operand = 0, call = 0;
  for (JobEvent& event : job.events) {
    if (event.kind == EventKind::kRoot) event.bytes = bytes[storage++];
    if (event.kind != EventKind::kOperator) continue;
    double now = 0, then = 0;
    const auto count = [&](size_t index) {
      now += static_cast<double>(bytes[index]);
      then += static_cast<double>(before[index]);
    };
    for (uint32_t k = 0; k < event.operands; ++k) count(job.operands[operand++].storage);
    for (uint32_t k = 0; k < event.outputs; ++k) {
      job.output_bytes[output++] = bytes[storage];
      count(storage++);
    }
    const uint32_t position = step.positions[call++];
    if (position < call_ns.size()) event.cost_ns = call_ns[position];
    if (event.bytes > 0 && then > 0) {
      event.bytes = static_cast<size_t>(static_cast<double>(event.bytes) * now / then);
    }
  }
  TraceBuilder builder(facts);
  play(job, builder);
  return builder.take();
}

}  // namespace tidepool::remat
