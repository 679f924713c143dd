#include "allocator/space/device_limit.h"

#include "tests/support/catch.h"

namespace tidepool {
namespace {

int requests_until_asked(DeviceLimit& limit) {
  int requests = 1;
  while (!limit.ask_again()) ++requests;
  return requests;
}

TEST_CASE("a device that refuses again and again is asked less and less often") {
  DeviceLimit limit;
  CHECK_FALSE(limit.ask_again());
  limit.set(10);
  CHECK(limit.pages() == 10);
  int before = requests_until_asked(limit);
  for (int refusal = 0; refusal < 10; ++refusal) {
    CHECK_FALSE(limit.is_set());
    CHECK(limit.last_pages() == 10);
    limit.set(10);
    const int requests = requests_until_asked(limit);
    CHECK(requests >= before);
    CHECK(requests <= 2 * before);
    before = requests;
  }
  CHECK(before == 1024);
}

TEST_CASE("a device that has given more is asked soon again after its next refusal") {
  DeviceLimit limit;
  for (int refusal = 0; refusal < 5; ++refusal) limit.set(10);
  limit.lift();
  limit.note_given(10);  // as much as before
  CHECK(limit.last_pages() == 10);
  limit.note_given(11);
  CHECK(limit.last_pages() == SIZE_MAX);
  limit.set(20);
  CHECK(requests_until_asked(limit) == 16);
}

}  // namespace
}  // namespace tidepool
