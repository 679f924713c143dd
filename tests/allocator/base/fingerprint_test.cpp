#include "allocator/base/fingerprint.h"

#include <set>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

struct Bytes {
  explicit Bytes(size_t bytes, uint64_t seed = 1) : words(bytes / 8 + 1), count(bytes) {
    test::Random random(seed);
    for (uint64_t& word : words) word = random.next();
  }
  unsigned char* data() { return reinterpret_cast<unsigned char*>(words.data()); }
  uint64_t hash() { return fingerprint(data(), count); }
  std::vector<uint64_t> words;
  size_t count;
};

TEST_CASE("parts in any division and order give the whole") {
  for (size_t count :
       {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{4096}, size_t{100'003}}) {
    Bytes bytes(count);
    for (size_t threads : {size_t{1}, size_t{3}, size_t{32}, size_t{1024}, size_t{200'000}}) {
      uint64_t sum = 0;
      for (size_t thread = threads; thread-- > 0;) {
        sum += fingerprint_part(bytes.data(), count, thread, threads);
      }
      REQUIRE(finished_fingerprint(sum, count) == bytes.hash());
    }
  }
}

TEST_CASE("every bit, every place and the length matter") {
  Bytes bytes(1003);
  std::set<uint64_t> seen{bytes.hash()};
  for (size_t bit = 0; bit < 1003 * 8; ++bit) {
    bytes.data()[bit / 8] ^= static_cast<unsigned char>(1u << (bit % 8));
    seen.insert(bytes.hash());
    bytes.data()[bit / 8] ^= static_cast<unsigned char>(1u << (bit % 8));
  }
  CHECK(seen.size() == 1003 * 8 + 1);
  std::swap(bytes.words[3], bytes.words[90]);
  CHECK(seen.insert(bytes.hash()).second);
  Bytes zeros(64), fewer_zeros(56);
  zeros.words.assign(9, 0);
  fewer_zeros.words.assign(8, 0);
  CHECK(zeros.hash() != fewer_zeros.hash());
  // What lies behind the last byte does not.
  bytes.count = 1001;
  const uint64_t before = bytes.hash();
  bytes.data()[1002] ^= 1;
  CHECK(bytes.hash() == before);
}

}  // namespace
}  // namespace tidepool
