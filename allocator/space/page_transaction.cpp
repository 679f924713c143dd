#include "allocator/space/page_transaction.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "allocator/base/check.h"
#include "allocator/base/device_broken.h"
#include "allocator/base/sizes.h"

namespace tidepool {

void PageTransaction::move(PageTable& pages, size_t from, size_t to) {
  TIDEPOOL_CHECK(pages.page(from).state == PageTable::PageState::kAccessible &&
                     pages.page(to).state == PageTable::PageState::kEmpty,
                 "move of page %zu to %zu", from, to);
  steps_.push_back({from, to, pages.page(from).handle, false, {}});
}

void PageTransaction::commit(PageTable& pages, size_t page) {
  HandleId handle = pages.take_spare();
  if (handle == HandleId::kNone) pages.promise(1);
  steps_.push_back({kNowhere, page, handle, handle == HandleId::kNone, {}});
}

void PageTransaction::give_back(PageTable& pages, size_t page) {
  steps_.push_back({page, kNowhere, pages.page(page).handle, false, {}});
}

void PageTransaction::give_back_spare(PageTable& pages) {
  steps_.push_back({kNowhere, kNowhere, pages.take_spare(), false, {}});
}

void PageTransaction::note(const std::string& error) {
  if (error_.empty()) error_ = error.empty() ? "the device refused to move pages" : error;
}

void PageTransaction::run() {
  fill_targets();
  open_targets();
  give_back_steps();
}

HandleId PageTransaction::create_handle() {
  try {
    if (reserve_bytes_ > 0 && !available_bytes_) available_bytes_ = space_.available_bytes();
    if (available_bytes_ && *available_bytes_ < page_bytes_ + reserve_bytes_) {
      throw DeviceError(fmt::format("the device has {} left, of which {} stay for others",
                                    human_bytes(*available_bytes_), human_bytes(reserve_bytes_)));
    }
    const HandleId handle = space_.create_handle(page_bytes_);
    if (available_bytes_) *available_bytes_ -= page_bytes_;
    return handle;
  } catch (const DeviceBroken&) {
    throw;
  } catch (const DeviceError&) {
    device_refused_ = true;
    throw;
  }
}

void PageTransaction::fill_targets() {
  for (Step& step : steps_) {
    if (step.to == kNowhere) continue;
    try {
      if (step.from != kNowhere) {
        switch (space_.move(step.handle, address(step.from), address(step.to), page_bytes_)) {
          case MoveResult::kMoved:
            step.fate = Fate::kMapped;
            ++moved_;
            break;
          case MoveResult::kStayed:
            return note({});
          case MoveResult::kUnmapped:
            step.fate = Fate::kUnmapped;
            return note({});
        }
      } else {
        if (step.handle == HandleId::kNone) step.handle = create_handle();
        step.fate = Fate::kUnmapped;
        space_.map(address(step.to), page_bytes_, step.handle);
        step.fate = Fate::kMapped;
      }
    } catch (const DeviceBroken& error) {
      device_broken_ = true;
      return note(error.what());
    } catch (const DeviceError& error) {
      return note(error.what());
    }
  }
}

void PageTransaction::open_targets() {
  // Neighbouring targets are opened by one call.
  std::sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) { return a.to < b.to; });
  for (size_t i = 0; i < steps_.size();) {
    if (steps_[i].fate != Fate::kMapped) {
      ++i;
      continue;
    }
    size_t last = i;
    while (last + 1 < steps_.size() && steps_[last + 1].fate == Fate::kMapped &&
           steps_[last + 1].to == steps_[last].to + 1) {
      ++last;
    }
    open_run(i, last);
    i = last + 1;
  }
}

void PageTransaction::open_run(size_t first_step, size_t last_step) {
  const Address start = address(steps_[first_step].to);
  const size_t bytes = (last_step - first_step + 1) * page_bytes_;
  Fate fate = Fate::kMapped;  // if neither works, it is mapped but cannot be used
  try {
    space_.set_access(start, bytes);
    fate = Fate::kAccessible;
  } catch (const DeviceError& error) {
    note(error.what());
    try {
      space_.unmap(start, bytes);
      fate = Fate::kUnmapped;
    } catch (const DeviceError&) {
      // The failure is noted above. The pages are quarantined, and tried again at the next
      // give-back.
    }
  }
  for (size_t i = first_step; i <= last_step; ++i) steps_[i].fate = fate;
}

void PageTransaction::give_back_steps() {
  // Neighbouring pages are unmapped by one call.
  std::sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) {
    return std::pair(a.to, a.from) < std::pair(b.to, b.from);
  });
  for (size_t i = 0; i < steps_.size();) {
    size_t last = i;
    if (steps_[i].to == kNowhere) {
      while (steps_[i].from != kNowhere && last + 1 < steps_.size() &&
             steps_[last + 1].from == steps_[last].from + 1) {
        ++last;
      }
      give_back_run(i, last);
    }
    i = last + 1;
  }
}

void PageTransaction::give_back_run(size_t first_step, size_t last_step) {
  const Step& first = steps_[first_step];
  const size_t count = last_step - first_step + 1;
  try {
    if (first.from != kNowhere) space_.unmap(address(first.from), count * page_bytes_);
    for (size_t i = first_step; i <= last_step; ++i) steps_[i].fate = Fate::kUnmapped;
  } catch (const DeviceError& error) {
    note(error.what());
    if (count == 1) return;
    // Each page that can be given back alone is.
    for (size_t i = first_step; i <= last_step; ++i) give_back_run(i, i);
    return;
  }
  for (size_t i = first_step; i <= last_step; ++i) {
    try {
      space_.release_handle(steps_[i].handle);
      steps_[i].fate = Fate::kReleased;
      ++given_back_;
    } catch (const DeviceError& error) {
      note(error.what());
    }
  }
}

void PageTransaction::apply(PageTable& pages, AllocatorObserver* observer) {
  for (const Step& step : steps_) {
    // First the handle is taken in hand ...
    if (step.promised) {
      if (step.handle == HandleId::kNone) {  // never created
        pages.break_promise();
        continue;
      }
      pages.keep_promise();
      pages.device_limit().note_given(pages.held());
    } else if (step.from != kNowhere) {
      if (step.fate == Fate::kUntouched) continue;  // still where it was
      pages.take(step.from);
      if (observer != nullptr) observer->page(address(step.from).pointer(), page_bytes_, false);
    }
    // ... then it goes where it is now.
    switch (step.fate) {
      case Fate::kUntouched:
      case Fate::kUnmapped:
        pages.add_spare(step.handle);
        break;
      case Fate::kMapped:
        pages.set_mapped(step.to, step.handle, false);
        break;
      case Fate::kAccessible:
        pages.set_mapped(step.to, step.handle, true);
        if (observer != nullptr) observer->page(address(step.to).pointer(), page_bytes_, true);
        break;
      case Fate::kReleased:
        pages.forget_released();
        break;
    }
  }
  if (device_refused_) pages.device_limit().set(pages.committed());
  steps_.clear();
}

}  // namespace tidepool
