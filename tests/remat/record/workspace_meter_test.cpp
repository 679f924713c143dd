#include "remat/record/workspace_meter.h"

#include <thread>

#include "tests/remat/record/block_views.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

TEST_CASE("a workspace is what is allocated at the fullest, less what is left") {
  WorkspaceMeter meter;
  meter.begin();
  meter.allocated(block(1, 100));
  meter.allocated(block(2, 50));
  meter.freed(block(1, 100), false);
  meter.allocated(block(3, 60));
  CHECK(meter.end() == 40);  // 150 at the fullest, 110 left
}

TEST_CASE("results that are allocated once a workspace is free add nothing") {
  WorkspaceMeter meter;
  meter.begin();
  meter.allocated(block(1, 100));
  meter.freed(block(1, 100), false);
  meter.allocated(block(1, 100));
  CHECK(meter.end() == 0);
}

TEST_CASE("what was there before is freed for nothing") {
  WorkspaceMeter meter;
  meter.allocated(block(9, 1000));
  meter.begin();
  meter.allocated(block(1, 100));
  meter.freed(block(9, 1000), false);
  meter.allocated(block(2, 100));
  meter.freed(block(1, 100), false);
  CHECK(meter.end() == 100);
}

TEST_CASE("what is moved meanwhile was there before") {
  WorkspaceMeter meter;
  BlockView place = block(2, 500);
  place.moves = true;
  meter.begin();
  meter.allocated(block(1, 100));
  meter.allocated(place);
  meter.freed(block(1, 100), false);
  meter.freed(block(2, 500), false);  // evicted in its new place
  meter.allocated(block(3, 150));
  CHECK(meter.end() == 0);
}

TEST_CASE("only the thread that runs an operator is measured, and one meter at a time") {
  WorkspaceMeter meter, other;
  meter.begin();
  other.begin();
  std::thread([&] {
    meter.allocated(block(1, 100));
    meter.freed(block(1, 100), false);
    CHECK(meter.end() == 0);
  }).join();
  other.allocated(block(2, 10));
  other.freed(block(2, 10), false);
  CHECK(other.end() == 0);
  meter.allocated(block(3, 7));
  meter.freed(block(3, 7), false);
  CHECK(meter.end() == 7);
  CHECK(meter.end() == 0);
}

}  // namespace
}  // namespace tidepool::remat
