#include "allocator/space/page_table.h"

#include "tests/support/catch.h"
#include "tests/support/death.h"

namespace tidepool {
namespace {

TEST_CASE("a page is counted from the promise to the release, wherever it is") {
  PageTable pages(16, 3);
  pages.promise(2);
  CHECK(pages.committed() == 2);
  CHECK(pages.headroom() == 1);
  pages.keep_promise();
  pages.set_mapped(4, HandleId{1}, true);
  pages.break_promise();
  CHECK(pages.committed() == 1);
  pages.check_invariants();
  HandleId handle = pages.take(4);
  pages.add_spare(handle);
  CHECK(pages.committed() == 1);
  CHECK(pages.spare_count() == 1);
  pages.check_invariants();
  CHECK(pages.take_spare() == HandleId{1});
  CHECK(pages.take_spare() == HandleId::kNone);
  pages.forget_released();
  CHECK(pages.committed() == 0);
  pages.check_invariants();
}

TEST_CASE("what would break the count ends the process") {
  PageTable pages(16, 3);
  CHECK(test::dies([&] { pages.promise(4); }));
  CHECK(test::dies([&] { pages.set_mapped(0, HandleId{1}, true); }));  // never promised
  CHECK(test::dies([&] { pages.take(0); }));
  CHECK(test::dies([&] { pages.break_promise(); }));
}

}  // namespace
}  // namespace tidepool
