// ForkedChildren: which of the children that this process has forked are still there, so that what
// they may read can be kept for them. A child holds one end of a pipe from its fork until it ends
// or runs another program; that this end has been closed is seen at the other one. Where there are
// no file descriptors left, a child is not known of.
// Owns the pipes. Not thread safe: one thread forks at a time, and calls all else.
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/base/own_descriptor.h"

namespace tidepool::remat {

class ForkedChildren {
 public:
  ForkedChildren() = default;
  ForkedChildren(const ForkedChildren&) = delete;
  ForkedChildren& operator=(const ForkedChildren&) = delete;

  // Are called before a fork, and after it in the parent and in the child. The child has no
  // children.
  void before_fork();
  void after_fork_in_parent();
  void become_forked_child();

  // How many forks there have been.
  uint64_t forks() const { return forks_; }
  // Whether a child was forked after the first `since` forks, and was there when ended children
  // were looked for last.
  bool any_since(uint64_t since) const {
    return !children_.empty() && children_.back().fork > since;
  }
  // Looks for children that have ended. O(children).
  void forget_ended();
  // Whether a child of the forks after `since`, up to `until`, was there then.
  bool any_between(uint64_t since, uint64_t until) const;

 private:
  struct Child {
    uint64_t fork = 0;   // which one it was, from 1
    OwnDescriptor pipe;  // the end that is read
  };

  uint64_t forks_ = 0;
  std::vector<Child> children_;  // the one forked last is last
  OwnDescriptor read_, write_;   // the pipe's ends between before_fork() and what follows
};

}  // namespace tidepool::remat
