#include "tests/support/death.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace tidepool::test {

namespace {

int status_from(int wait_status) {
  if (WIFSIGNALED(wait_status)) return 128 + WTERMSIG(wait_status);
  return WEXITSTATUS(wait_status);
}

}  // namespace

bool dies(const std::function<void()>& code, std::string* message) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  pid_t child = fork();
  if (child < 0) std::abort();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // the test program's handlers are not for this one
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    code();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[512];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  int wait_status = 0;
  waitpid(child, &wait_status, 0);
  if (message != nullptr) *message = text;
  return status_from(wait_status) == 128 + SIGABRT;
}

int status_of_child(const std::function<int()>& code) {
  pid_t child = fork();
  if (child < 0) std::abort();
  if (child == 0) {
    for (int signal : {SIGABRT, SIGSEGV, SIGBUS}) std::signal(signal, SIG_DFL);
    _exit(code());
  }
  int wait_status = 0;
  waitpid(child, &wait_status, 0);
  return status_from(wait_status);
}

}  // namespace tidepool::test
