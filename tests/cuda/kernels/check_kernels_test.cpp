#include "cuda/kernels/check_kernels.h"

#include <vector>

#include "allocator/base/fingerprint.h"
#include "cuda/kernels/kernel_image.h"
#include "tests/cuda/fake_driver.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool::device {
namespace {

constexpr unsigned char kImage[] = {1};

// Runs the kernels as a device would, over host memory.
void run_on_host(const std::string& name, size_t threads, void** arguments) {
  const auto start = *static_cast<driver::DevicePointer*>(arguments[0]);
  const auto count = *static_cast<unsigned long long*>(arguments[1]);
  auto* bytes = reinterpret_cast<unsigned char*>(start);
  if (name == "tidepool_fingerprint") {
    auto* sum = reinterpret_cast<uint64_t*>(*static_cast<driver::DevicePointer*>(arguments[2]));
    for (size_t t = 0; t < threads; ++t) *sum += fingerprint_part(bytes, count, t, threads);
  } else {
    REQUIRE(name == "tidepool_poison");
    const auto pattern = *static_cast<unsigned long long*>(arguments[2]);
    for (size_t i = 0; i < count; ++i) {
      bytes[i] = static_cast<unsigned char>(pattern >> (8 * (i % 8)));
    }
  }
}

struct World {
  World() { fake.on_launch = run_on_host; }
  test::FakeDriver fake{2};
  Driver driver{fake.functions(), 1};
  std::string why_not;
};

TEST_CASE("fingerprints on a device are those of the host, in the order of the stream") {
  World world;
  auto kernels = CheckKernels::load(world.driver, kImage, &world.why_not);
  REQUIRE(kernels != nullptr);
  driver::Stream stream = world.fake.add_stream(1);
  tidepool::test::Random random(7);
  std::vector<uint64_t> words(100'000);
  for (uint64_t& word : words) word = random.next();
  for (size_t bytes : {size_t{1}, size_t{8}, size_t{1001}, size_t{800'000}}) {
    CHECK(kernels->fingerprint(Address::of(words.data()), bytes, stream) ==
          fingerprint(words.data(), bytes));
    CHECK(world.fake.copies.back().stream == stream);
  }
  kernels->poison(Address::of(words.data()), 1001, 0xFB, stream);
  std::vector<unsigned char> expected(1001, 0xFB);
  CHECK(fingerprint(words.data(), 1001) == [&] {
    std::vector<uint64_t> copy(126);
    std::copy(expected.begin(), expected.end(), reinterpret_cast<unsigned char*>(copy.data()));
    return fingerprint(copy.data(), 1001);
  }());
  kernels.reset();
  CHECK(world.fake.modules == 0);
  CHECK(world.fake.allocation_count() == 0);
}

TEST_CASE("without kernels the reason is said") {
  World world;
  CHECK(CheckKernels::load(world.driver, {}, &world.why_not) == nullptr);
  CHECK(world.why_not == "built without CUDA's compiler");
  Driver old(find_driver_functions(world.fake.finder({"cuLaunchKernel"})), 0);
  CHECK(CheckKernels::load(old, kImage, &world.why_not) == nullptr);
  CHECK(world.why_not == "the CUDA driver lacks cuLaunchKernel");
}

TEST_CASE("every call refused in turn is an error, and nothing is left behind") {
  for (size_t n = 1; n <= 20; ++n) {
    World world;
    world.fake.fail_at(n);
    auto kernels = CheckKernels::load(world.driver, kImage, &world.why_not);
    CHECK((kernels == nullptr) == world.fake.failed());
    if (kernels != nullptr) {
      uint64_t word = 5;
      bool threw = false;
      try {
        const uint64_t found = kernels->fingerprint(Address::of(&word), 8, nullptr);
        CHECK(found == fingerprint(&word, 8));
      } catch (const DeviceError&) {
        threw = true;
      }
      CHECK(threw == world.fake.failed());
    }
    world.fake.fail_at(0);
    kernels.reset();
    CHECK(world.fake.modules == 0);
    CHECK(world.fake.allocation_count() == 0);
    CHECK(world.fake.current_device() == -1);
  }
}

TEST_CASE("the image is a fat binary where CUDA's compiler was there") {
  std::span<const unsigned char> image = kernel_image();
  if (image.empty()) return;
  CHECK(image.size() > 1000);
  const unsigned magic = image[0] | image[1] << 8 | image[2] << 16 | unsigned{image[3]} << 24;
  CHECK(magic == 0xba55ed50);
}

}  // namespace
}  // namespace tidepool::device
