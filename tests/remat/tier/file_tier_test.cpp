#include "remat/tier/file_tier.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/death.h"
#include "tests/support/faulty_file.h"
#include "tests/support/random.h"
#include "tests/support/remat_fixture.h"

namespace tidepool {
namespace {

using remat::FileTier;
using remat::TierError;
using remat::TierSlot;
using test::FaultyFile;
using Bytes = std::vector<unsigned char>;

constexpr size_t kMiB = size_t{1} << 20;

// Where tests run may be a folder in memory, which a tier refuses.
std::string folder() { return std::filesystem::current_path().string(); }

Bytes contents(size_t bytes, uint64_t seed) {
  SplitMix random(seed);
  Bytes out(bytes);
  for (unsigned char& each : out) each = static_cast<unsigned char>(random.next());
  return out;
}

TEST_CASE("contents of all sizes come back, from memory that is aligned to nothing") {
  FileTier tier(folder(), 64 * kMiB);
  std::vector<std::pair<Bytes, TierSlot>> stored;
  for (const size_t bytes :
       {size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, kMiB, kMiB + 1, 3 * kMiB - 7}) {
    Bytes made = contents(bytes + 3, bytes);
    const auto slot = tier.store(made.data() + 3, bytes, {});
    REQUIRE(slot.has_value());
    CHECK(tier.matches(*slot, made.data() + 3));
    stored.emplace_back(Bytes(made.begin() + 3, made.end()), *slot);
  }
  // Every other one goes, so that what comes next lies in pieces.
  for (size_t k = 0; k < stored.size(); k += 2) tier.drop(stored[k].second);
  for (size_t k = 1; k < stored.size(); k += 2) {
    Bytes back(stored[k].first.size() + 5);
    tier.load(stored[k].second, back.data() + 5, StreamId::kDefault);
    CHECK(Bytes(back.begin() + 5, back.end()) == stored[k].first);
    back[5] ^= 1;
    CHECK_FALSE(tier.matches(stored[k].second, back.data() + 5));
    tier.drop(stored[k].second);
  }
  const auto counts = tier.statistics();
  CHECK(counts.stores == 7);
  CHECK(counts.loads == 3);
  CHECK(counts.held_bytes == 0);
  CHECK(counts.peak_bytes >= 5 * kMiB);
}

TEST_CASE("a tier holds what it was given room for, and not a byte more") {
  FileTier tier(folder(), kMiB + 100);
  const Bytes made = contents(kMiB, 1);
  CHECK(tier.has_room(kMiB));
  CHECK_FALSE(tier.has_room(kMiB + 1));
  const auto slot = tier.store(made.data(), kMiB - 4096, {});
  REQUIRE(slot.has_value());
  CHECK_FALSE(tier.store(made.data(), 4097, {}).has_value());
  const auto small = tier.store(made.data(), 4096, {});
  REQUIRE(small.has_value());
  CHECK_FALSE(tier.store(made.data(), 1, {}).has_value());
  CHECK(tier.statistics().peak_bytes == kMiB);
  CHECK(tier.statistics().refusals == 2);
  tier.drop(*slot);
  tier.drop(*small);
}

TEST_CASE("nothing is in the folder while the tier holds contents") {
  const std::string own = folder() + "/file_tier_test";
  std::filesystem::create_directory(own);
  {
    FileTier tier(own, kMiB);
    const Bytes made = contents(kMiB, 2);
    const auto slot = tier.store(made.data(), kMiB, {});
    REQUIRE(slot.has_value());
    CHECK(std::filesystem::is_empty(own));
    tier.drop(*slot);
  }
  std::filesystem::remove(own);
}

TEST_CASE("a disk without room ends storing, and keeps what is there") {
  const int status = test::status_of_child([] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {2 * kMiB, 2 * kMiB};  // of a file's size
    ::setrlimit(RLIMIT_FSIZE, &limit);
    FileTier tier(folder(), 64 * kMiB);
    const Bytes first = contents(kMiB, 3);
    const auto slot = tier.store(first.data(), first.size(), {});
    if (!slot) return 1;
    const Bytes large = contents(4 * kMiB, 4);
    if (tier.store(large.data(), large.size(), {})) return 2;
    if (tier.has_room(1) || tier.store(first.data(), 1, {})) return 3;
    Bytes back(first.size());
    tier.load(*slot, back.data(), StreamId::kDefault);
    return back == first ? 0 : 4;
  });
  CHECK(status == 0);
}

TEST_CASE("bytes that have changed on the disk are an error") {
  FileTier tier(folder(), 8 * kMiB);
  const Bytes made = contents(kMiB + 5, 5);
  const auto slot = tier.store(made.data(), made.size(), {});
  // The file has no name, but the process that owns it can reach it.
  std::optional<std::filesystem::path> file;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code none;
    const std::string target = std::filesystem::read_symlink(each, none).string();
    if (target.find("(deleted)") != std::string::npos && target.starts_with(folder())) file = each;
  }
  REQUIRE(file.has_value());
  std::FILE* const opened = std::fopen(file->c_str(), "r+b");
  REQUIRE(opened != nullptr);
  std::fseek(opened, 1000, SEEK_SET);
  std::fputc(made[1000] ^ 0xff, opened);
  std::fclose(opened);
  Bytes back(made.size());
  CHECK_THROWS_WITH(tier.load(*slot, back.data(), StreamId::kDefault),
                    Catch::Matchers::Contains("checksum"));
  REQUIRE(::truncate(file->c_str(), 4096) == 0);
  CHECK_THROWS_AS(tier.load(*slot, back.data(), StreamId::kDefault), TierError);
  tier.drop(*slot);
}

TEST_CASE("a forked child loads what the parent has stored, and stores nothing") {
  FileTier tier(folder(), 8 * kMiB);
  const Bytes made = contents(2 * kMiB, 6);
  const auto slot = tier.store(made.data(), made.size(), {});
  const int status = test::status_of_child([&] {
    tier.become_forked_child();
    Bytes back(made.size());
    tier.load(*slot, back.data(), StreamId::kDefault);
    if (back != made || !tier.matches(*slot, back.data())) return 1;
    return tier.has_room(1) || tier.store(made.data(), 1, {}) ? 2 : 0;
  });
  CHECK(status == 0);
  tier.drop(*slot);
}

// The parent drops the copy that the child is about to load, and stores another one. Returns the
// child's status: 0 if it could load the copy.
int child_beside_changes(FileTier& tier, const Bytes& made, const Bytes& later) {
  const auto slot = tier.store(made.data(), made.size(), {});
  std::array<int, 2> ready = {};
  REQUIRE(pipe(ready.data()) == 0);
  tier.before_fork();
  const pid_t child = fork();
  if (child == 0) {
    tier.become_forked_child();
    char end;
    if (read(ready[0], &end, 1) != 1) _exit(3);
    Bytes back(made.size());
    try {
      tier.load(*slot, back.data(), StreamId::kDefault);
    } catch (const TierError&) {
      _exit(1);
    }
    _exit(back == made ? 0 : 2);
  }
  tier.after_fork_in_parent();
  tier.drop(*slot);
  CHECK(tier.statistics().held_bytes == 0);
  CHECK(tier.has_room(later.size()));
  CHECK_FALSE(tier.store(later.data(), tier.most_bytes() + 1, {}).has_value());
  const auto other = tier.store(later.data(), later.size(), {});
  REQUIRE(other.has_value());
  CHECK(tier.statistics().held_bytes == later.size());
  REQUIRE(write(ready[1], "", 1) == 1);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  close(ready[0]), close(ready[1]);
  tier.drop(*other);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_CASE("what a forked child may read is not written over while there is other room") {
  FileTier tier(folder(), 4 * kMiB);
  CHECK(child_beside_changes(tier, contents(2 * kMiB, 6), contents(2 * kMiB, 7)) == 0);
  CHECK(child_beside_changes(tier, contents(2 * kMiB, 8), contents(2 * kMiB, 9)) == 0);
  CHECK(tier.statistics().peak_bytes == 2 * kMiB);
  // Where there is none, the parent comes first.
  CHECK(child_beside_changes(tier, contents(2 * kMiB, 10), contents(4 * kMiB, 11)) == 1);
}

TEST_CASE("what was stored after a fork is of no use to the child, and makes room at once") {
  FileTier tier(folder(), 4 * kMiB);
  tier.before_fork();
  tier.after_fork_in_parent();
  const Bytes made = contents(4 * kMiB, 12);
  for (int k = 0; k < 3; ++k) {
    const auto slot = tier.store(made.data(), made.size(), {});
    REQUIRE(slot.has_value());
    tier.drop(*slot);
  }
}

// A job whose contents are twice its budget: inputs are made, read, written and dropped. Returns
// how many of its operators ended in an error; what the others made has to be right.
int run_job(RematFixture& job) {
  int errors = 0;
  std::vector<RematFixture::Tensor> tensors;
  const auto attempt = [&](auto&& action) {
    try {
      action();
    } catch (const TierError&) {
      ++errors;
    } catch (const OutOfMemory&) {
      ++errors;
    }
  };
  constexpr uint32_t kWords = 2048;
  for (int k = 0; k < 8; ++k) {
    attempt([&] {
      tensors.push_back(job.input(kWords));
      job.tracked(tensors.back());  // it may leave from now on
    });
  }
  for (size_t k = 0; k < tensors.size(); ++k) {
    attempt([&] {
      const auto made = job.pure({tensors[k], tensors[(k + 3) % tensors.size()]}, kWords);
      const bool same = job.matches(made);
      CHECK(same);
      job.update(tensors[k], {made});
      job.drop(made);
    });
    job.check();
  }
  for (const RematFixture::Tensor tensor : tensors) {
    attempt([&] {
      const bool same = job.matches(tensor);
      CHECK(same);
    });
  }
  for (const RematFixture::Tensor tensor : tensors) job.drop(tensor);
  job.check();
  CHECK(job.statistics().tier.held_bytes == 0);
  return errors;
}

// Runs the job with the fault; returns its errors, and how often the file was called.
std::pair<int, uint64_t> run_job(FaultyFile::Fault fault) {
  constexpr size_t kBudget = 16 * 4096;
  auto file = std::make_unique<FaultyFile>(fault);
  const FaultyFile& watched = *file;
  RematFixture job(kBudget, {}, nullptr,
                   std::make_unique<FileTier>(std::move(file), "the test's memory", kMiB));
  const int errors = run_job(job);
  CHECK(job.allocator.statistics().reserved_peak_bytes <= kBudget);
  return {errors, watched.calls()};
}

TEST_CASE("a job in which one call of the file goes wrong has right bytes, or errors") {
  using Kind = FaultyFile::Kind;
  const Kind kind = GENERATE(Kind::kWriteError, Kind::kReadError, Kind::kShort, Kind::kOdd,
                             Kind::kNothing, Kind::kInterrupted, Kind::kBits);
  const auto [none, calls] = run_job(FaultyFile::Fault{});
  CHECK(none == 0);
  CHECK(calls > 20);
  int errors = 0;
  for (uint64_t at = 1; at <= calls; ++at) {
    INFO("call " << at);
    errors += run_job({kind, at}).first;
  }
  CHECK((errors == 0) == (kind == Kind::kShort || kind == Kind::kInterrupted));
}

}  // namespace
}  // namespace tidepool
