#include "allocator/trace_ring.h"

#include "tests/support/catch.h"

namespace tidepool {
namespace {

TEST_CASE("the ring keeps the last events and says how many are lost") {
  TraceRing ring(3);
  for (size_t i = 0; i < 5; ++i) ring.add(TraceKind::kAllocate, 0x100 + i, i);
  std::vector<TraceEvent> events = ring.events();
  REQUIRE(events.size() == 3);
  CHECK(events[0].number == 2);
  CHECK(events[2].address == 0x104);
  CHECK(ring.text() ==
        "(2 earlier events are lost)\n"
        "2 allocate 0x102 2\n3 allocate 0x103 3\n4 allocate 0x104 4\n");
}

TEST_CASE("a ring of capacity 0 keeps nothing") {
  TraceRing ring(0);
  ring.add(TraceKind::kFree, 1, 1);
  CHECK(ring.events().empty());
  CHECK(ring.text().empty());
}

}  // namespace
}  // namespace tidepool
