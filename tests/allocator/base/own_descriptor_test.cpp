#include "allocator/base/own_descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

namespace tidepool {
namespace {

int open_unnamed() {
  return open(std::filesystem::current_path().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

ino_t inode_of(int descriptor) {
  struct stat file{};
  REQUIRE(fstat(descriptor, &file) == 0);
  return file.st_ino;
}

TEST_CASE("a descriptor lies above those that a job expects") {
  const int given = open("/dev/null", O_RDONLY | O_CLOEXEC);
  OwnDescriptor own(given);
  const int descriptor = own.get();
  CHECK(descriptor >= 64);
  CHECK(fcntl(given, F_GETFD) < 0);
  CHECK(fcntl(descriptor, F_GETFD) == FD_CLOEXEC);
  OwnDescriptor moved(std::move(own));
  CHECK(moved.get() == descriptor);
  CHECK(moved.close());
  CHECK(fcntl(descriptor, F_GETFD) < 0);
  CHECK(moved.get() < 0);
  CHECK(moved.close());
}

TEST_CASE("a file that a job has under our number is its own") {
  int number = -1;
  int theirs = -1;
  {
    OwnDescriptor own(open_unnamed());
    number = own.get();
    REQUIRE(close(number) == 0);
    errno = 0;
    CHECK(own.get() < 0);
    CHECK(errno == EBADF);
    theirs = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, number);
    REQUIRE(theirs == number);
    CHECK(own.get() < 0);
    CHECK_FALSE(own.close());
    CHECK(own.get() < 0);
  }
  CHECK(fcntl(theirs, F_GETFD) == FD_CLOEXEC);
  close(theirs);
}

TEST_CASE("no other file gets the number of one without a name that a job has closed") {
  OwnDescriptor own(open_unnamed());
  const ino_t inode = inode_of(own.get());
  REQUIRE(close(own.get()) == 0);
  std::vector<OwnDescriptor> others;
  std::set<ino_t> inodes;
  for (int k = 0; k < 100; ++k) {
    others.emplace_back(open_unnamed());
    inodes.insert(inode_of(others.back().get()));
  }
  CHECK_FALSE(inodes.contains(inode));
}

TEST_CASE("what stands for none") {
  OwnDescriptor none;
  CHECK(none.get() < 0);
  CHECK(none.close());
  OwnDescriptor refused(-1);
  CHECK(refused.get() < 0);
}

}  // namespace
}  // namespace tidepool
