#include "remat/steps/foresight.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tidepool::remat {
namespace {

uint64_t difference(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

void add_error(uint64_t off, uint64_t found, double& sum, double& most) {
  const double error = static_cast<double>(off) / static_cast<double>(std::max<uint64_t>(found, 1));
  sum += error;
  most = std::max(most, error);
}

bool whatever_bytes(size_t, size_t) { return true; }

// The calls of `alike`, with bytes and times that a step's sizes say.
StepList list_of(const StepList& alike, std::vector<size_t> bytes,
                 const std::vector<uint64_t>& call_ns) {
  StepList list;
  list.entries = alike.entries;
  list.operands = alike.operands;
  list.outputs = alike.outputs;
  // A thousand results that are off by so much make a small share of the step.
  constexpr size_t kLeastSlack = 1024, kSlackShare = 1 << 14;
  for (StepOutput& output : list.outputs) {
    output.bytes = bytes[output.number];
    list.slack += output.bytes;
  }
  list.slack = std::max(list.slack / kSlackShare, kLeastSlack);
  list.bytes = std::move(bytes);
  const StepOutput* output = list.outputs.data();
  const StepOutput* const end = output + list.outputs.size();
  for (size_t k = 0; k < list.entries.size(); ++k) {
    StepList::Entry& entry = list.entries[k];
    entry.start_ns = list.length_ns;
    list.length_ns += call_ns[k];
    list.mix(entry.site);
    for (size_t n = 0; n < entry.operands; ++n) list.mix(list.operands[entry.first_operand + n]);
    for (; output != end && output->position <= k; ++output) list.mix_output(*output);
  }
  return list;
}

}  // namespace

void Foresight::learn(std::span<const StepList* const> lists, bool foreseen) {
  if (lists.size() < 2) return;
  Form form;
  form.form = lists.back()->form;
  const auto known = std::find_if(forms_.begin(), forms_.end(),
                                  [&](const Form& other) { return other.form == form.form; });
  if (known != forms_.end()) {
    const bool enough = lists.size() <= known->learnt_from || known->learnt_from >= kEnoughSizes;
    if (known->sizes && foreseen && enough) return;
    form.tried = known->tried;
    forms_.erase(known);
  } else if (forms_.size() == kMostForms) {
    forms_.erase(forms_.begin());
  }
  std::vector<std::vector<uint64_t>> times;
  std::vector<StepSample> samples;
  for (const StepList* list : lists) times.push_back(list->call_ns());
  for (size_t k = 0; k < lists.size(); ++k) samples.push_back({lists[k]->bytes, times[k]});
  form.sizes = StepSizes::learn(samples);
  form.learnt_from = lists.size();
  forms_.push_back(std::move(form));
}

bool Foresight::may_foresee(uint32_t storages, uint32_t step) const {
  return std::any_of(forms_.begin(), forms_.end(),
                     [&](const Form& form) { return is_due(form, storages, step); });
}

std::optional<StepList> Foresight::foresee(const StepList& present, uint32_t step,
                                           std::span<const StepList* const> known) {
  for (auto form = forms_.rbegin(); form != forms_.rend(); ++form) {
    if (!is_due(*form, present.numbers(), step)) continue;
    form->tried = step;
    const auto alike = std::find_if(known.begin(), known.end(), [&](const StepList* list) {
      return list->form == form->form && list->begins_like(present, whatever_bytes);
    });
    if (alike == known.end()) continue;
    std::vector<size_t> bytes;
    std::vector<uint64_t> call_ns;
    if (!form->sizes->foresee(present.bytes, bytes, call_ns)) continue;
    StepList list = list_of(**alike, std::move(bytes), call_ns);
    const auto alike_bytes = [&](size_t own, size_t found) {
      return StepSizes::about_equal(own, found, list.slack);
    };
    if (!list.begins_like(present, alike_bytes)) continue;
    ++statistics_.steps;
    return list;
  }
  return std::nullopt;
}

void Foresight::compare(const StepList& foreseen, const StepList& found, bool kept) {
  statistics_.kept += kept;
  if (foreseen.form != found.form) return;
  ++statistics_.compared;
  uint64_t off = 0, total = 0;
  for (size_t k = 0; k < found.outputs.size(); ++k) {
    off += difference(foreseen.outputs[k].bytes, found.outputs[k].bytes);
    total += found.outputs[k].bytes;
  }
  add_error(off, total, statistics_.bytes_errors, statistics_.most_bytes_error);
  add_error(difference(foreseen.length_ns, found.length_ns), found.length_ns,
            statistics_.time_errors, statistics_.most_time_error);
}

size_t Foresight::bookkeeping_bytes() const {
  size_t bytes = bytes_of(forms_);
  for (const Form& form : forms_) bytes += form.sizes ? form.sizes->bookkeeping_bytes() : 0;
  return bytes;
}

}  // namespace tidepool::remat
