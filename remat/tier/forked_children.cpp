#include "remat/tier/forked_children.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace tidepool::remat {
namespace {

// Nothing is ever written: a pipe that can be read has no writer any more.
bool has_ended(int pipe) {
  pollfd wanted{pipe, POLLIN, 0};
  return poll(&wanted, 1, 0) > 0;
}

}  // namespace

ForkedChildren::~ForkedChildren() {
  for (const Child& child : children_) close(child.pipe);
}

void ForkedChildren::before_fork() {
  forget_ended();
  if (pipe2(pipe_.data(), O_CLOEXEC) != 0) pipe_ = {-1, -1};
}

void ForkedChildren::after_fork_in_parent() {
  ++forks_;
  const auto [read, write] = std::exchange(pipe_, {-1, -1});
  if (read < 0) return;
  close(write);
  children_.push_back({forks_, read});
}

// The end that is written stays open as long as the child runs this program.
void ForkedChildren::become_forked_child() {
  const auto [read, write] = std::exchange(pipe_, {-1, -1});
  if (read >= 0) close(read);
  static_cast<void>(write);
  for (const Child& child : children_) close(child.pipe);
  children_.clear();
}

void ForkedChildren::forget_ended() {
  std::erase_if(children_, [](const Child& child) {
    const bool ended = has_ended(child.pipe);
    if (ended) close(child.pipe);
    return ended;
  });
}

bool ForkedChildren::any_between(uint64_t since, uint64_t until) const {
  return std::any_of(children_.begin(), children_.end(),
                     [&](const Child& child) { return since < child.fork && child.fork <= until; });
}

}  // namespace tidepool::remat
