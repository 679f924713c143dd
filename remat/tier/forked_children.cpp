#include "remat/tier/forked_children.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace tidepool::remat {
namespace {

// From here on the job does not expect its descriptors: it may close 0, 1 or 2 to get them again.
constexpr int kLeastDescriptor = 64;

int moved_up(int descriptor) {
  const int above = fcntl(descriptor, F_DUPFD_CLOEXEC, kLeastDescriptor);
  if (above < 0) return descriptor;
  close(descriptor);
  return above;
}

// A pipe's number, which tells it from what the job has under a descriptor that it has closed
// unasked; 0: there is no pipe.
uint64_t pipe_at(int descriptor) {
  struct stat found{};
  return fstat(descriptor, &found) == 0 && S_ISFIFO(found.st_mode) ? found.st_ino : 0;
}

}  // namespace

ForkedChildren::~ForkedChildren() { forget_all(); }

void ForkedChildren::forget_all() {
  for (const Child& child : children_) {
    if (pipe_at(child.descriptor) == child.pipe) close(child.descriptor);
  }
  children_.clear();
}

void ForkedChildren::before_fork() {
  forget_ended();
  if (pipe2(pipe_.data(), O_CLOEXEC) != 0) {
    pipe_ = {-1, -1};
    return;
  }
  for (int& end : pipe_) end = moved_up(end);
}

void ForkedChildren::after_fork_in_parent() {
  ++forks_;
  const auto [read, write] = std::exchange(pipe_, {-1, -1});
  if (read < 0) return;
  close(write);
  children_.push_back({forks_, read, pipe_at(read)});
}

// The end that is written stays open as long as the child runs this program.
void ForkedChildren::become_forked_child() {
  const auto [read, write] = std::exchange(pipe_, {-1, -1});
  if (read >= 0) close(read);
  static_cast<void>(write);
  forget_all();
}

void ForkedChildren::forget_ended() {
  std::erase_if(children_, [](const Child& child) {
    if (pipe_at(child.descriptor) != child.pipe) return true;
    pollfd wanted{child.descriptor, POLLIN, 0};
    const bool ended = poll(&wanted, 1, 0) > 0 && (wanted.revents & POLLHUP) != 0;
    if (ended) close(child.descriptor);
    return ended;
  });
}

bool ForkedChildren::any_between(uint64_t since, uint64_t until) const {
  return std::any_of(children_.begin(), children_.end(),
                     [&](const Child& child) { return since < child.fork && child.fork <= until; });
}

}  // namespace tidepool::remat
