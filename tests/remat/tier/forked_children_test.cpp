#include "remat/tier/forked_children.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <set>

#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

// A child that runs until it is told to end.
class Child {
 public:
  explicit Child(ForkedChildren& children) {
    REQUIRE(pipe(until_.data()) == 0);
    children.before_fork();
    pid_ = fork();
    if (pid_ == 0) {
      children.become_forked_child();
      char end;
      _exit(read(until_[0], &end, 1) == 1 ? 0 : 1);
    }
    children.after_fork_in_parent();
  }
  void end() {
    REQUIRE(write(until_[1], "", 1) == 1);
    int status = 0;
    REQUIRE(waitpid(pid_, &status, 0) == pid_);
    CHECK(status == 0);
    close(until_[0]), close(until_[1]);
  }

 private:
  std::array<int, 2> until_ = {};
  pid_t pid_ = -1;
};

TEST_CASE("a child is known of until it ends") {
  ForkedChildren children;
  CHECK_FALSE(children.any_since(0));
  Child first(children);
  Child second(children);
  CHECK(children.forks() == 2);
  CHECK(children.any_since(0));
  CHECK(children.any_since(1));
  CHECK_FALSE(children.any_since(2));
  CHECK(children.any_between(0, 1));
  CHECK(children.any_between(1, 2));
  CHECK_FALSE(children.any_between(2, 9));

  first.end();
  children.forget_ended();
  CHECK_FALSE(children.any_between(0, 1));
  CHECK(children.any_between(1, 2));
  CHECK(children.any_since(1));

  second.end();
  children.forget_ended();
  CHECK_FALSE(children.any_since(0));
}

TEST_CASE("descriptors are the job's, the lowest and those that it has closed unasked") {
  const auto lowest = [] {
    const int descriptor = dup(0);
    close(descriptor);
    return descriptor;
  };
  const auto pipes = [] {
    std::set<int> found;
    for (int descriptor = 0; descriptor < 256; ++descriptor) {
      struct stat of{};
      if (fstat(descriptor, &of) == 0 && S_ISFIFO(of.st_mode)) found.insert(descriptor);
    }
    return found;
  };
  const std::set<int> before = pipes();
  ForkedChildren children;
  const int free = lowest();
  children.before_fork();
  CHECK(lowest() == free);
  children.after_fork_in_parent();
  CHECK(lowest() == free);
  CHECK(children.any_since(0));
  std::set<int> ours = pipes();
  for (const int each : before) ours.erase(each);
  REQUIRE(ours.size() == 1);
  REQUIRE(dup2(0, *ours.begin()) >= 0);
  children.forget_ended();
  CHECK_FALSE(children.any_since(0));
  CHECK(close(*ours.begin()) == 0);  // it is still there
}

TEST_CASE("forks are counted where there are no file descriptors for their children") {
  ForkedChildren children;
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlimit none{0, limit.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  children.before_fork();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  children.after_fork_in_parent();
  CHECK(children.forks() == 1);
  CHECK_FALSE(children.any_since(0));
}

}  // namespace
}  // namespace tidepool::remat
