// Foresight: foresees steps of sizes that the job has not had yet, from the beginnings of such
// steps: for each form of steps of which two sizes or more have been seen it keeps what they have
// in common (StepSizes). It compares what it foresaw with what the steps then did.
// Owns what it has learnt, of a few forms. Not thread safe: the device's lock is held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "remat/steps/step_list.h"
#include "remat/steps/step_sizes.h"

namespace tidepool::remat {

// ForesightStatistics: how well steps of new sizes were foreseen so far.
struct ForesightStatistics {
  uint64_t steps = 0;  // steps that were foreseen
  uint64_t kept = 0;   // of them, those that went as foreseen to their end
  // The errors of those that did what was foreseen, at whatever sizes: of the bytes of their
  // results, result by result, and of their time, both as shares of what was found.
  uint64_t compared = 0;
  double bytes_errors = 0, most_bytes_error = 0;  // the sum, and the greatest
  double time_errors = 0, most_time_error = 0;

  double mean_bytes_error() const { return compared > 0 ? bytes_errors / count() : 0; }
  double mean_time_error() const { return compared > 0 ? time_errors / count() : 0; }

 private:
  double count() const { return static_cast<double>(compared); }
};

class Foresight {
 public:
  // Learns from a form's lists, whose bytes all differ, the latest last. `foreseen`: the latest was
  // as foreseen.
  void learn(std::span<const StepList* const> lists, bool foreseen);

  // Whether a step that has met so many storages, and is number `step`, may be foreseen now. Each
  // form is tried once in a step.
  bool may_foresee(uint32_t storages, uint32_t step) const;
  // Foresees the step that begins as `present`, which may_foresee(). `known` are lists of forms.
  // Returns nothing if it begins as none of them, but for bytes, or their sizes do not tell its.
  std::optional<StepList> foresee(const StepList& present, uint32_t step,
                                  std::span<const StepList* const> known);

  // Notes what a step did that was foreseen. `kept`: as foreseen, to its end.
  void compare(const StepList& foreseen, const StepList& found, bool kept);
  const ForesightStatistics& statistics() const { return statistics_; }

  size_t bookkeeping_bytes() const;

 private:
  static constexpr size_t kMostForms = 4;
  // From so many sizes on a form is learnt anew only where it was not foreseen.
  static constexpr size_t kEnoughSizes = 5;

  struct Form {
    uint64_t form = 0;
    std::optional<StepSizes> sizes;
    size_t learnt_from = 0;
    uint32_t tried = 0;  // the last step in which it was tried
  };

  bool is_due(const Form& form, uint32_t storages, uint32_t step) const {
    return form.sizes && form.tried != step && form.sizes->head() <= storages;
  }

  std::vector<Form> forms_;  // in the order in which they were learnt last
  ForesightStatistics statistics_;
};

}  // namespace tidepool::remat
