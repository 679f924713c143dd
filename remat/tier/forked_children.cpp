#include "remat/tier/forked_children.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace tidepool::remat {

void ForkedChildren::before_fork() {
  forget_ended();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  read_ = OwnDescriptor(ends[0]);
  write_ = OwnDescriptor(ends[1]);
}

void ForkedChildren::after_fork_in_parent() {
  ++forks_;
  write_.close();
  if (read_.get() >= 0) children_.push_back({forks_, std::move(read_)});
}

// The end that is written stays open as long as the child runs this program.
void ForkedChildren::become_forked_child() {
  read_.close();
  write_.release();
  children_.clear();
}

void ForkedChildren::forget_ended() {
  std::erase_if(children_, [](const Child& child) {
    pollfd wanted{child.pipe.get(), POLLIN, 0};
    if (wanted.fd < 0) return true;
    return poll(&wanted, 1, 0) > 0 && (wanted.revents & POLLHUP) != 0;
  });
}

bool ForkedChildren::any_between(uint64_t since, uint64_t until) const {
  return std::any_of(children_.begin(), children_.end(),
                     [&](const Child& child) { return since < child.fork && child.fork <= until; });
}

}  // namespace tidepool::remat
