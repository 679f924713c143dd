#include "allocator/arena/out_of_memory.h"

#include "tests/support/catch.h"

namespace tidepool {
namespace {

TEST_CASE("a report adds up, and names each use with its bytes") {
  OutOfMemoryReport report;
  report.requested_bytes = 1000;
  report.budget_bytes = 1 << 20;
  report.allocated_bytes = 900 << 10;
  report.lower_bound_budget_bytes = 2 << 20;
  report.pinned = {{"parameters", 500 << 10}, {"gradients", 300 << 10}};
  report.evictable = {{"activations", 100 << 10}};
  CHECK(report.pinned_bytes() == 800 << 10);
  CHECK(report.evictable_bytes() == 100 << 10);
  const std::string text = report.format();
  const size_t parameters = text.find("parameters: 500.00 KiB");
  const size_t gradients = text.find("gradients: 300.00 KiB");
  CHECK(parameters != std::string::npos);
  CHECK(gradients != std::string::npos);
  CHECK(parameters < gradients);
  CHECK(text.find("activations: 100.00 KiB") != std::string::npos);
  CHECK(text.find("No budget below 2.00 MiB") != std::string::npos);
  CHECK(std::string(OutOfMemory(report).what()) == text);
}

}  // namespace
}  // namespace tidepool
