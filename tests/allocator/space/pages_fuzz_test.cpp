// Pages: the table's counts, and transactions whose device calls fail, against plain books.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "allocator/space/page_transaction.h"
#include "allocator/space/simulated_space.h"
#include "tests/support/catch.h"
#include "tests/support/faulty_space.h"
#include "tests/support/operation_fuzz.h"

namespace tidepool {
namespace {

using test::expect;
using test::expect_equal;
using test::Operation;
using test::OperationKind;
using PageState = PageTable::PageState;

class PageTableModel {
 public:
  enum Kind { kPromise, kKeep, kBreak, kMap, kTake, kAddSpare, kTakeSpare, kForget, kSetBudget };
  static constexpr OperationKind kKinds[] = {{"kPromise", 6},   {"kKeep", 5},   {"kBreak", 1},
                                             {"kMap", 8},       {"kTake", 4},   {"kAddSpare", 2},
                                             {"kTakeSpare", 2}, {"kForget", 2}, {"kSetBudget", 1}};

  explicit PageTableModel(uint64_t) {}

  bool run(const Operation& op) {
    const bool had_effect = step(op);
    compare();
    return had_effect;
  }
  void finish() {}

 private:
  static constexpr size_t kPages = 12;

  bool step(const Operation& op) {
    const size_t page = op.a % kPages;
    switch (op.kind) {
      case kPromise: {
        const size_t pages = op.b % (headroom() + 1);
        table_.promise(pages);
        promised_ += pages;
        return pages > 0;
      }
      case kKeep:
      case kBreak:
        if (promised_ == 0) return false;
        --promised_;
        if (op.kind == kBreak) return table_.break_promise(), true;
        table_.keep_promise();
        in_hand_.push_back(HandleId{++newest_});
        return true;
      case kMap:
        if (in_hand_.empty() || mapped_.contains(page)) return false;
        mapped_[page] = {in_hand_.back(),
                         op.b % 4 == 0 ? PageState::kInaccessible : PageState::kAccessible};
        table_.set_mapped(page, in_hand_.back(), op.b % 4 != 0);
        in_hand_.pop_back();
        return true;
      case kTake:
        if (!mapped_.contains(page)) return false;
        in_hand_.push_back(table_.take(page));
        expect(in_hand_.back() == mapped_.extract(page).mapped().handle);
        return true;
      case kTakeSpare: {
        const HandleId handle = table_.take_spare();
        expect((handle == HandleId::kNone) == spares_.empty());
        if (spares_.empty()) return false;
        expect(spares_.erase(handle) == 1);
        in_hand_.push_back(handle);
        return true;
      }
      case kSetBudget:
        budget_ = op.b % (2 * kPages);
        table_.set_budget(budget_);
        return true;
      default:
        if (in_hand_.empty()) return false;
        if (op.kind == kForget) {
          table_.forget_released();
        } else {
          table_.add_spare(in_hand_.back());
          spares_.insert(in_hand_.back());
        }
        in_hand_.pop_back();
        return true;
    }
  }

  size_t committed() const { return promised_ + in_hand_.size() + spares_.size() + mapped_.size(); }
  // A budget may be set below what is committed.
  size_t headroom() const { return std::max(budget_, committed()) - committed(); }
  void compare() const {
    table_.check_invariants();
    expect_equal(table_.committed(), committed());
    expect_equal(table_.headroom(), headroom());
    expect_equal(table_.mapped(), mapped_.size());
    expect_equal(table_.spare_count(), spares_.size());
    for (size_t page = 0; page < kPages; ++page) {
      const auto found = mapped_.find(page);
      const PageTable::Page expected = found == mapped_.end() ? PageTable::Page{} : found->second;
      expect(table_.page(page).handle == expected.handle);
      expect(table_.page(page).state == expected.state);
    }
  }

  size_t budget_ = 7;
  PageTable table_{kPages, budget_};
  size_t promised_ = 0;
  std::vector<HandleId> in_hand_;
  std::set<HandleId> spares_;
  std::map<size_t, PageTable::Page> mapped_;
  uint64_t newest_ = 0;
};

class PageTransactionModel {
 public:
  enum Kind { kMove, kCommit, kGiveBack, kGiveBackSpare, kRun, kFail };
  static constexpr OperationKind kKinds[] = {{"kMove", 6},     {"kCommit", 6},
                                             {"kGiveBack", 4}, {"kGiveBackSpare", 1},
                                             {"kRun", 3},      {"kFail", 1}};

  explicit PageTransactionModel(uint64_t) {}

  bool run(const Operation& op) {
    const size_t page = op.a % kPages;
    const PageState state = table_.page(page).state;
    if (op.kind <= kGiveBack && used_.contains(page)) return false;
    switch (op.kind) {
      case kMove: {
        const size_t to = op.b % kPages;
        if (state != PageState::kAccessible || table_.page(to).state != PageState::kEmpty ||
            used_.contains(to)) {
          return false;
        }
        transaction_->move(table_, page, to);
        planned_[page] = false;
        planned_[to] = true;
        used_.insert(to);
        break;
      }
      case kCommit:
        if (state != PageState::kEmpty || table_.headroom() + table_.spare_count() == 0) {
          return false;
        }
        transaction_->commit(table_, page);
        planned_[page] = true;
        break;
      case kGiveBack:
        if (state == PageState::kEmpty) return false;
        transaction_->give_back(table_, page);
        planned_[page] = false;
        break;
      case kGiveBackSpare:
        if (table_.spare_count() == 0) return false;
        transaction_->give_back_spare(table_);
        return true;
      case kRun:
        return run_planned();
      default:
        space_.set_moves_fail_half_way(op.b % 2 == 0);
        space_.fail_at(DeviceCall::kAny, 1 + op.a % 20, op.c % 4 == 0);
        return true;
    }
    used_.insert(page);
    return true;
  }

  void finish() {
    run_planned();
    space_.fail_never();
    for (size_t page = 0; page < kPages; ++page) {
      if (table_.page(page).state != PageState::kEmpty) transaction_->give_back(table_, page);
    }
    while (table_.spare_count() > 0) transaction_->give_back_spare(table_);
    space_.fail_at(DeviceCall::kAny, SIZE_MAX / 2);
    run_planned();
    expect_equal(table_.committed(), size_t{0});
    simulated_.release_range(base_, kPages * kPage);  // throws if anything is left in it
  }

 private:
  static constexpr size_t kPage = 4096, kPages = 16, kBudget = 8;

  bool run_planned() {
    const bool failed_before = space_.failed();
    transaction_->run();
    transaction_->apply(table_);
    table_.check_invariants();
    simulated_.check_invariants();
    expect_equal(table_.committed() * kPage, simulated_.handle_bytes_total());
    for (size_t page = 0; page < kPages; ++page) {
      const bool accessible = table_.page(page).state == PageState::kAccessible;
      expect_equal(simulated_.accessible(base_ + page * kPage, kPage), accessible);
    }
    if (!failed_before) expect_equal(transaction_->succeeded(), !space_.failed());
    expect_equal(transaction_->error().empty(), transaction_->succeeded());
    for (const auto& [page, filled] : planned_) {
      if (transaction_->succeeded()) {
        expect(table_.page(page).state == (filled ? PageState::kAccessible : PageState::kEmpty));
      }
    }
    if (space_.failed()) space_.fail_at(DeviceCall::kAny, SIZE_MAX / 2);
    const bool any = !planned_.empty();
    planned_.clear();
    used_.clear();
    transaction_.emplace(space_, base_, kPage);
    return any;
  }

  SimulatedSpace simulated_{kPage};
  FaultySpace space_{simulated_};
  Address base_ = space_.reserve(kPages * kPage);
  PageTable table_{kPages, kBudget};
  std::optional<PageTransaction> transaction_{std::in_place, space_, base_, kPage};
  std::map<size_t, bool> planned_;  // page -> is to be filled, or emptied
  std::set<size_t> used_;           // by the steps so far
};

TEST_CASE("the page table counts what is where") { test::fuzz<PageTableModel>("PageTableModel"); }
TEST_CASE("transactions lose nothing, whatever call fails") {
  test::fuzz<PageTransactionModel>("PageTransactionModel");
}

}  // namespace
}  // namespace tidepool
