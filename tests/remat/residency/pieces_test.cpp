#include "remat/residency/pieces.h"

#include <algorithm>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/random.h"
#include "tests/support/remat_fixture.h"

namespace tidepool {
namespace {

using remat::ByteRange;
using remat::ByteRanges;
using remat::Pieces;
using remat::RootReason;
using test::Random;
using Tensor = RematFixture::Tensor;

// What RematFixture's operators write and read are words of eight bytes.
constexpr uint32_t kWords = 64;

TEST_CASE("pieces know which bytes were written, as a set of bytes does") {
  Random random(GENERATE(range(0, 80)));
  remat::Value value;
  value.bytes = 1 + random.below(200);
  remat::Storage storage;
  storage.current = &value;
  Pieces pieces;
  std::vector<bool> written(value.bytes);
  const size_t period = random.below(2) == 0 ? 0 : 1 + random.below(value.bytes);
  const auto some = [&](size_t of_period) {
    const size_t bytes = of_period != 0 ? of_period : value.bytes;
    ByteRanges made{std::vector<ByteRange>(1 + random.below(3)), of_period};
    for (ByteRange& range : made.ranges) {
      range.begin = random.below(bytes);
      range.end = range.begin + 1 + random.below(bytes - range.begin);
    }
    return made;
  };
  const auto for_each_byte = [&](const ByteRanges& bytes, auto&& visit) {
    for (const ByteRange& range : bytes.ranges) {
      for (size_t start = 0; start < value.bytes; start += bytes.period) {
        const size_t end = std::min(start + range.end, size_t{value.bytes});
        for (size_t k = start + range.begin; k < end; ++k) visit(k);
        if (bytes.period == 0) break;
      }
    }
  };
  const auto count = [&](const ByteRanges& bytes, bool of) {
    size_t found = 0;
    for_each_byte(bytes, [&](size_t k) { found += written[k] == of; });
    return found;
  };
  do {
    for (int k = 0; k < 10; ++k) {
      const ByteRanges asked = some(random.below(2) == 0 ? 0 : period);
      CHECK(pieces.covers(storage, asked) == (count(asked, false) == 0));
      CHECK(pieces.meets(storage, asked) == (count(asked, true) > 0));
    }
    const ByteRanges fresh = some(period);
    REQUIRE(pieces.add(storage, fresh));
    for_each_byte(fresh, [&](size_t k) { written[k] = true; });
    CHECK(storage.in_pieces == (count({{{0, value.bytes}}, 0}, false) > 0));
    if (storage.in_pieces) pieces.check_invariants(1);
  } while (storage.in_pieces);
}

TEST_CASE("too many pieces are forgotten, and such as repeat in another way") {
  remat::Value value;
  value.bytes = 8 * Pieces::kMostRanges;
  remat::Storage storage;
  storage.current = &value;
  Pieces pieces;
  for (size_t k = 0; k < Pieces::kMostRanges; ++k) {
    REQUIRE(pieces.add(storage, {{{4 * k, 4 * k + 1}}, 0}));
  }
  CHECK(pieces.bookkeeping_bytes() >= Pieces::kMostRanges * sizeof(ByteRange));
  CHECK(!pieces.add(storage, {{{value.bytes - 1, value.bytes}}, 0}));
  CHECK(!storage.in_pieces);
  const ByteRanges column{{{0, 4}}, 16}, row{{{16, 32}}, 0}, wider{{{4, 8}}, 32};
  REQUIRE(pieces.add(storage, column));
  CHECK(!pieces.covers(storage, wider));
  CHECK(pieces.meets(storage, wider));
  CHECK(!pieces.add(storage, row));
  CHECK(!storage.in_pieces);
  REQUIRE(pieces.add(storage, row));
  CHECK(!pieces.covers(storage, column));
  CHECK(pieces.meets(storage, column));
  CHECK(!pieces.add(storage, column));
  CHECK(!storage.in_pieces);
  pieces.check_invariants(0);
}

TEST_CASE("memory that is filled piece by piece has lineage once it is full") {
  RematFixture job;
  const Tensor full = job.framework.new_input(kWords, 7);
  const Tensor x = job.input();
  for (uint32_t k = 0; k < 4; ++k) {
    const Tensor piece = job.pure({x});
    job.write_piece(full, 16 * k, 16, {piece});
    job.drop(piece);
    CHECK(!job.is_root(full));
    CHECK(job.evict(full) == (k == 3));
  }
  CHECK(job.matches(full));
  job.check();
}

TEST_CASE("what was written can be read before the rest, and comes back") {
  RematFixture job;
  const Tensor filled = job.framework.new_input(kWords, 7);
  job.write_piece(filled, 0, 40, {job.input()});
  const Tensor read = job.read_piece(filled, 8, 32);
  CHECK(!job.is_root(read));
  job.write_piece(filled, 40, 24, {read});
  CHECK(job.evict(read));
  CHECK(job.evict(filled));
  CHECK(job.matches(filled));
  CHECK(job.matches(read));
  job.check();
}

TEST_CASE("who reads what nobody has written makes a root of it") {
  RematFixture job;
  const Tensor filled = job.framework.new_input(kWords, 7);
  job.write_piece(filled, 0, 40);
  const Tensor read = job.read_piece(filled, 30, 20);
  CHECK(job.value(filled).reason == RootReason::kPartialWrite);
  CHECK(job.evict(read));
  job.write_piece(filled, 40, 24);
  CHECK(job.is_root(filled));
  CHECK(job.matches(read));
  job.check();
}

TEST_CASE("an update of what nobody has written makes a root of it") {
  RematFixture job;
  const Tensor filled = job.framework.new_input(kWords, 7);
  job.write_piece(filled, 0, 40);
  job.update(filled);
  CHECK(job.value(filled).reason == RootReason::kPartialWrite);
  job.check();
}

TEST_CASE("contents that an operator has read are not filled piece by piece") {
  RematFixture job;
  const Tensor x = job.input(kWords);
  const Tensor read = job.pure({x});
  job.write_piece(x, 0, 32);
  CHECK(job.value(x).reason == RootReason::kPartialWrite);
  job.write_piece(x, 32, 32);
  CHECK(job.is_root(x));
  CHECK(job.matches(read));
  job.check();
}

TEST_CASE("first pieces do not count as versions, and later ones do") {
  remat::RuntimeConfig config;
  config.limits.versions = 2;
  RematFixture job(1 << 20, config);
  const Tensor filled = job.framework.new_input(kWords, 7);
  for (uint32_t k = 0; k < 8; ++k) job.write_piece(filled, 8 * k, 8);
  CHECK(job.evict(filled));
  CHECK(job.matches(filled));
  for (uint32_t k = 0; k < 2; ++k) job.write_piece(filled, 8 * k, 8);
  CHECK(!job.is_root(filled));
  job.write_piece(filled, 0, 8);
  CHECK(job.value(filled).reason == RootReason::kVersionLimit);
  job.check();
}

TEST_CASE("a failed piece leaves a root") {
  RematFixture job;
  const Tensor filled = job.framework.new_input(kWords, 7);
  job.write_piece(filled, 0, 32);
  CHECK_THROWS(job.update(filled, {}, true));
  CHECK(job.is_root(filled));
  job.write_piece(filled, 32, 32);
  CHECK(!job.evict(filled));
  job.check();
}

}  // namespace
}  // namespace tidepool
