#include "allocator/space/mapping_ledger.h"

#include "tests/support/catch.h"

namespace tidepool {
namespace {

constexpr size_t kPage = 4096;

TEST_CASE("the ledger knows what is mapped where") {
  MappingLedger ledger(kPage, 100);
  Address range{1 << 20};
  ledger.add_range(range, 16 * kPage);
  HandleId small = ledger.create_handle(kPage);
  HandleId large = ledger.create_handle(3 * kPage);
  ledger.check_map(range, kPage, small);
  ledger.map(range, small);
  ledger.check_map(range + kPage, 3 * kPage, large);
  ledger.map(range + kPage, large);
  ledger.check_invariants();
  CHECK(ledger.mapping_count() == 2);
  CHECK(ledger.handle_bytes_total() == 4 * kPage);
  CHECK_NOTHROW(ledger.check_set_access(range, 4 * kPage));
  CHECK_THROWS_AS(ledger.check_set_access(range, 2 * kPage), DeviceError);  // ends in a mapping
  CHECK_THROWS_AS(ledger.check_unmap(range + 2 * kPage, 2 * kPage), DeviceError);
  CHECK_THROWS_AS(ledger.check_map(range + 2 * kPage, kPage, ledger.create_handle(kPage)),
                  DeviceError);
  ledger.set_access(range, kPage);
  CHECK(ledger.accessible(range, kPage));
  CHECK_FALSE(ledger.accessible(range, 2 * kPage));
  ledger.check_move(large, range + kPage, range + 8 * kPage, 3 * kPage);
  ledger.move(large, range + kPage, range + 8 * kPage);
  ledger.check_invariants();
  CHECK_THROWS_AS(ledger.check_release_range(range, 16 * kPage), DeviceError);
  ledger.unmap(range, kPage);
  ledger.unmap(range + 8 * kPage, 3 * kPage);
  CHECK_NOTHROW(ledger.check_release_range(range, 16 * kPage));
  ledger.release_handle(small);
  CHECK(ledger.handle_bytes_total() == 4 * kPage);
  ledger.check_invariants();
}

}  // namespace
}  // namespace tidepool
