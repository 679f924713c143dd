#include "allocator/space/page_table.h"

#include <algorithm>

#include "allocator/base/check.h"

namespace tidepool {

void PageTable::promise(size_t pages) {
  TIDEPOOL_CHECK(pages <= headroom(), "%zu pages promised, room for %zu", pages, headroom());
  promised_ += pages;
  committed_ += pages;
}

void PageTable::keep_promise() {
  TIDEPOOL_CHECK(promised_ > 0, "%zu handles in hand", in_hand_);
  --promised_;
  ++in_hand_;
}

void PageTable::break_promise() {
  TIDEPOOL_CHECK(promised_ > 0, "of %zu committed", committed_);
  --promised_;
  --committed_;
}

void PageTable::set_mapped(size_t page, HandleId handle, bool accessible) {
  TIDEPOOL_CHECK(in_hand_ > 0 && pages_[page].state == PageState::kEmpty, "page %zu, %zu in hand",
                 page, in_hand_);
  pages_[page] = {handle, accessible ? PageState::kAccessible : PageState::kInaccessible};
  --in_hand_;
  ++mapped_;
}

HandleId PageTable::take(size_t page) {
  TIDEPOOL_CHECK(pages_[page].state != PageState::kEmpty, "page %zu is empty", page);
  HandleId handle = pages_[page].handle;
  pages_[page] = Page{};
  ++in_hand_;
  --mapped_;
  return handle;
}

void PageTable::add_spare(HandleId handle) {
  TIDEPOOL_CHECK(in_hand_ > 0, "%zu spares", spares_.size());
  --in_hand_;
  spares_.push_back(handle);
}

HandleId PageTable::take_spare() {
  if (spares_.empty()) return HandleId::kNone;
  HandleId handle = spares_.back();
  spares_.pop_back();
  ++in_hand_;
  return handle;
}

void PageTable::forget_released() {
  TIDEPOOL_CHECK(in_hand_ > 0, "of %zu committed", committed_);
  --in_hand_;
  --committed_;
}

void PageTable::check_invariants() const {
  size_t mapped = 0;
  std::vector<HandleId> handles = spares_;
  for (const Page& page : pages_) {
    TIDEPOOL_CHECK((page.state == PageState::kEmpty) == (page.handle == HandleId::kNone),
                   "(1) page with handle %zu", static_cast<size_t>(page.handle));
    if (page.state == PageState::kEmpty) continue;
    ++mapped;
    handles.push_back(page.handle);
  }
  TIDEPOOL_CHECK(mapped == mapped_, "(1) %zu pages mapped, not %zu", mapped, mapped_);
  TIDEPOOL_CHECK(mapped_ + spares_.size() + promised_ + in_hand_ == committed_,
                 "(1) %zu mapped + %zu spare + %zu promised + %zu in hand are not %zu", mapped_,
                 spares_.size(), promised_, in_hand_, committed_);
  TIDEPOOL_CHECK(committed_ <= budget(), "(1) %zu committed, budget %zu", committed_, budget());
  std::sort(handles.begin(), handles.end());
  TIDEPOOL_CHECK(std::adjacent_find(handles.begin(), handles.end()) == handles.end(),
                 "(2) a handle is in two places, of %zu", handles.size());
}

}  // namespace tidepool
