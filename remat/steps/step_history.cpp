#include "remat/steps/step_history.h"

#include <algorithm>
#include <utility>

#include "allocator/base/check.h"

namespace tidepool::remat {

namespace {

bool same_bytes(size_t a, size_t b) { return a == b; }

}  // namespace

// Whether the list, of a whole step or its beginning, is as expected so far.
bool StepHistory::begins_as_expected(const List& list) const {
  if (!foreseeing()) return expected().begins_like(list, same_bytes);
  return foreseen_.begins_like(list, [this](size_t foreseen, size_t found) {
    return StepSizes::about_equal(foreseen, found, foreseen_.slack);
  });
}

uint32_t StepHistory::number_of(Storage& storage) {
  if (storage.step_seen != step_) {
    storage.step_seen = step_;
    storage.step_number = present_.numbers();
    present_.bytes.push_back(storage.current->bytes);
  }
  return storage.step_number;
}

StepHistory::Call StepHistory::begin(uint64_t site, std::span<Storage* const> operands,
                                     uint64_t now_ns) {
  if (present_.entries.empty()) present_.start_ns = now_ns;
  const Call call{step_, static_cast<Position>(present_.entries.size())};
  if (present_.operands.size() + operands.size() + present_.outputs.size() +
          present_.entries.size() >
      kMostOperands) {
    present_.complete = false;
    give_up();
  }
  if (!present_.complete) return call;
  Entry entry{site, now_ns - present_.start_ns, static_cast<uint32_t>(present_.operands.size()),
              static_cast<uint32_t>(operands.size())};
  present_.mix(site);
  for (Storage* storage : operands) {
    present_.operands.push_back(number_of(*storage));
    present_.mix(present_.operands.back());
  }
  present_.entries.push_back(entry);
  if (matching_ && !begins_alike()) expect_another();
  if (!matching_) try_to_foresee();
  return call;
}

// Whether the last entry is that of the expected step.
bool StepHistory::begins_alike() const {
  const List& list = expected();
  const size_t at = present_.entries.size() - 1;
  if (at >= list.entries.size()) return false;
  const Entry& entry = present_.entries[at];
  const Entry& before = list.entries[at];
  return entry.site == before.site && entry.first_operand == before.first_operand &&
         entry.operands == before.operands &&
         std::equal(present_.operands.begin() + entry.first_operand, present_.operands.end(),
                    list.operands.begin() + entry.first_operand);
}

bool StepHistory::expects_repetition() const {
  if (foreseeing()) return foreseen_.form == last_form_;
  const Kind& kind = kinds_[expected_];
  if (kind.next == 0) return true;
  const size_t next = find(kind.next);
  return next != kNone && kinds_[next].list.form == kind.list.form;
}

void StepHistory::give_up() {
  matching_ = false;
  expected_ = kNone;
}

size_t StepHistory::find(uint64_t fingerprint) const {
  for (size_t k = 0; k < kinds_.size(); ++k) {
    if (kinds_[k].list.fingerprint == fingerprint) return k;
  }
  return kNone;
}

void StepHistory::expect(size_t kind) {
  expected_ = kind;
  matching_ = true;
  ++expectation_;
  index_uses();
}

// Expects the latest remembered step that begins as the present one does, which is not the expected
// one.
void StepHistory::expect_another() {
  size_t best = kNone;
  for (size_t k = 0; k < kinds_.size(); ++k) {
    if (best != kNone && kinds_[k].seen < kinds_[best].seen) continue;
    if (kinds_[k].list.begins_like(present_, same_bytes)) best = k;
  }
  give_up();
  if (best != kNone) expect(best);
}

void StepHistory::finish(const Call& call, std::span<Storage* const> outputs) {
  if (call.step != step_ || !present_.complete) return;
  for (Storage* storage : outputs) {
    if (storage == nullptr) continue;
    const Output output{call.position, number_of(*storage), storage->current->bytes};
    const size_t at = present_.outputs.size();
    present_.outputs.push_back(output);
    present_.mix_output(output);
    if (!matching_) continue;
    const auto& foreseen = expected().outputs;
    const bool alike =
        at < foreseen.size() &&
        (foreseen[at] == output ||
         (foreseeing() && foreseen[at].position == output.position &&
          foreseen[at].number == output.number &&
          StepSizes::about_equal(foreseen[at].bytes, output.bytes, foreseen_.slack)));
    if (!alike) expect_another();
  }
  if (!matching_) try_to_foresee();
}

// Foresees the present step from its beginning, if it is of a form whose sizes are known.
void StepHistory::try_to_foresee() {
  if (!present_.complete || !foresight_.may_foresee(present_.numbers(), step_)) return;
  std::vector<const List*> known;
  for (const Kind& kind : kinds_) known.push_back(&kind.list);
  std::optional<List> list = foresight_.foresee(present_, step_, known);
  if (!list) return;
  foreseen_ = std::move(*list);
  newly_foreseen_ = true;
  expect(kForeseen);
}

// Learns how sizes depend on each other from the steps of this kind's form.
void StepHistory::learn_sizes(size_t kind, bool foreseen) {
  const uint64_t form = kinds_[kind].list.form;
  std::vector<const List*> lists;
  for (const Kind& other : kinds_) {
    if (other.list.form == form && &other != &kinds_[kind]) lists.push_back(&other.list);
  }
  form_repeated_ = repeated_ || !lists.empty();
  lists.push_back(&kinds_[kind].list);
  if (!repeated_) foresight_.learn(lists, foreseen);
}

// Notes that the step with this fingerprint came after the step before.
void StepHistory::note_successor(uint64_t fingerprint) {
  const size_t before = find(last_fingerprint_);
  if (before == kNone) return;
  constexpr int kMostConfidence = 3;
  Kind& kind = kinds_[before];
  if (kind.next == fingerprint) {
    kind.confidence = std::min(kind.confidence + 1, kMostConfidence);
  } else if (--kind.confidence < 0) {
    kind.next = fingerprint;
    kind.confidence = 0;
  }
}

// Keeps the present list, in place of the one of its kind, or else of the one that was longest ago.
// Returns its index.
size_t StepHistory::remember_present() {
  size_t at = find(present_.fingerprint);
  repeated_ = at != kNone;
  if (!repeated_) {
    size_t length = present_.length();
    for (const Kind& kind : kinds_) length += kind.list.length();
    while (!kinds_.empty() && (kinds_.size() >= kKinds || length > kMostOperands)) {
      const auto oldest =
          std::min_element(kinds_.begin(), kinds_.end(),
                           [](const Kind& a, const Kind& b) { return a.seen < b.seen; });
      length -= oldest->list.length();
      kinds_.erase(oldest);
    }
    at = kinds_.size();
    kinds_.emplace_back();
  }
  std::swap(kinds_[at].list, present_);
  kinds_[at].seen = step_;
  return at;
}

void StepHistory::end_step(uint64_t now_ns) {
  if (present_.entries.empty()) return;  // two ends of steps in a row
  present_.length_ns = now_ns - present_.start_ns;
  last_outputs_ = present_.outputs.size();
  const uint64_t fingerprint = present_.fingerprint;
  const bool kept = foreseeing() && foreseen_.entries.size() == present_.entries.size() &&
                    foreseen_.outputs.size() == present_.outputs.size();
  if (!foreseen_.entries.empty()) foresight_.compare(foreseen_, present_, kept);
  last_foreseen_ = kept ? foreseen_.fingerprint : 0;
  last_form_ = present_.form;
  give_up();
  repeated_ = form_repeated_ = newly_foreseen_ = false;
  foreseen_.clear();
  ++expectation_;
  if (present_.complete) {
    const size_t now = remember_present();
    learn_sizes(now, kept);
    note_successor(fingerprint);
    const size_t next = find(kinds_[now].next);
    expect(next != kNone ? next : now);
  }
  last_fingerprint_ = fingerprint;
  present_.clear();
  ++step_;
}

void StepHistory::index_uses() {
  const List& list = expected();
  first_use_.assign(list.numbers() + 1, 0);
  for (const uint32_t number : list.operands) ++first_use_[number + 1];
  for (size_t n = 1; n < first_use_.size(); ++n) first_use_[n] += first_use_[n - 1];
  cursor_.assign(first_use_.begin(), first_use_.end() - 1);
  uses_.resize(list.operands.size());
  for (size_t at = 0; at < list.entries.size(); ++at) {
    const Entry& entry = list.entries[at];
    for (size_t k = 0; k < entry.operands; ++k) {
      uses_[cursor_[list.operands[entry.first_operand + k]]++] = static_cast<Position>(at);
    }
  }
  cursor_.assign(first_use_.begin(), first_use_.end() - 1);
}

size_t StepHistory::uses_begun(const Storage& storage) {
  const uint32_t number = storage.step_number;
  uint32_t& at = cursor_[number];
  while (at < first_use_[number + 1] && uses_[at] < present_.entries.size()) ++at;
  return at - first_use_[number];
}

StepHistory::Position StepHistory::next_use(const Storage& storage) {
  if (!matching_ || storage.step_seen != step_) return kUnknown;
  const auto all = uses(storage.step_number);
  const size_t begun = uses_begun(storage);
  return begun < all.size() ? all[begun] : kNever;
}

uint64_t StepHistory::time_until_ns(Position position) const {
  const size_t now = present_.entries.size();
  TIDEPOOL_CHECK(matching_ && position != kUnknown, "position %u at %zu", position, now);
  if (position < now) return 0;
  const List& list = expected();
  const uint64_t start_ns = now < list.entries.size() ? list.entries[now].start_ns : list.length_ns;
  const uint64_t end_ns = position == kNever ? 2 * list.length_ns : list.start_ns_of(position);
  return end_ns - start_ns;
}

size_t StepHistory::bookkeeping_bytes() const {
  size_t bytes = present_.bookkeeping_bytes() + foreseen_.bookkeeping_bytes() +
                 foresight_.bookkeeping_bytes() + bytes_of(first_use_) + bytes_of(uses_) +
                 bytes_of(cursor_);
  for (const Kind& kind : kinds_) bytes += kind.list.bookkeeping_bytes();
  return bytes;
}

void StepHistory::check_invariants() const {
  TIDEPOOL_CHECK(matching_ == (foreseeing() || expected_ < kinds_.size()),
                 "invariant 1: kind %zu of %zu", expected_, kinds_.size());
  TIDEPOOL_CHECK(!matching_ || (present_.complete && begins_as_expected(present_)),
                 "invariant 1: %zu calls", present_.entries.size());
  for (size_t k = 0; k < kinds_.size(); ++k) {
    TIDEPOOL_CHECK(kinds_[k].list.complete && find(kinds_[k].list.fingerprint) == k,
                   "invariant 3: kind %zu of %zu", k, kinds_.size());
  }
}

}  // namespace tidepool::remat
