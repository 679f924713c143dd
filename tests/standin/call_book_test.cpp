// Failing the n-th call of a kind on the stand-in device, and the texts of its settings.
#include "tests/support/fake_cuda/core/call_book.h"

#include <cstdlib>

#include "tests/standin/driver.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda/control.h"

namespace tidepool::fake_cuda {
namespace {

TEST_CASE("the n-th call of a kind fails, does nothing, and can be armed again") {
  Driver cuda;
  cuda.machine.book.fail({.call = Call::kCreate, .first = 2, .error = Error::kOutOfMemory});
  CHECK(cuda.created(kPage) != 0);
  CHECK(cuda.created(kPage) == 0);
  CHECK(cuda.created(kPage) != 0);
  CHECK(cuda.machine.memory(0).used_bytes() == 2 * kPage);
  CHECK(cuda.machine.misuses.empty());
  CHECK(cuda.machine.book.calls(Call::kCreate) == 3);
  CHECK(cuda.machine.book.failures(Call::kCreate) == 1);

  cuda.machine.book.fail({.call = Call::kCreate, .first = 1, .count = 2});
  CHECK(cuda.created(kPage) == 0);
  CHECK(cuda.created(kPage) == 0);
  CHECK(cuda.created(kPage) != 0);
  cuda.machine.book.fail({.call = Call::kCreate, .first = 1, .count = ~uint64_t{0}});
  for (int i = 0; i < 5; ++i) CHECK(cuda.created(kPage) == 0);
  cuda.machine.book.clear_failures();
  CHECK(cuda.created(kPage) != 0);
}

TEST_CASE("every kind of call of a program can be made to fail") {
  for (const char* const kind :
       {"malloc", "free", "reserve", "create", "map", "access", "unmap", "release", "event_create",
        "event_record", "event_query", "stream_create", "stream_wait", "stream_query",
        "synchronize", "copy", "fill", "launch"}) {
    Driver cuda;
    REQUIRE(fake_cuda_set("FAIL", (std::string(kind) + ":1=999").c_str()) == 0);
    std::vector<int> results;
    const auto note = [&](int result) { results.push_back(result); };
    driver::DeviceAddress memory = 0;
    driver::DeviceAddress range = 0;
    unsigned long long handle = 0;
    void* stream = nullptr;
    void* event = nullptr;
    const auto properties = Driver::on_device();
    note(cuda.allocate(&memory, kPage));
    note(cuda.reserve(&range, kPage, 0, 0, 0));
    note(cuda.create(&handle, kPage, &properties, 0));
    note(cuda.map(range, kPage, 0, handle, 0));
    note(cuda.allow(range, kPage));
    note(cuda.create_stream(&stream, 0));
    note(cuda.create_event(&event, 0));
    note(cuda.run_kernel(stream));
    note(cuda.fill_async(memory, 0, 8, stream));
    note(cuda.copy_async(memory, memory + 8, 8, stream));
    note(cuda.record(event, stream));
    note(cuda.wait(stream, event, 0));
    note(cuda.query(event));
    note(cuda.query_stream(stream));
    note(cuda.synchronize_device());
    note(cuda.unmap(range, kPage));
    note(cuda.release(handle));
    note(cuda.free(memory));
    INFO(kind);
    CHECK(std::count(results.begin(), results.end(), 999) == 1);
    CHECK(fake_cuda_failures(kind) == 1);
    if (std::string(kind) == "launch") CHECK(std::count(results.begin(), results.end(), 0) == 17);
  }
}

TEST_CASE("failures and prices are read from text") {
  const std::vector<FailureRule> rules = parse_failures("map:3,event_record:1x2=700");
  REQUIRE(rules.size() == 2);
  CHECK(rules[0].call == Call::kMap);
  CHECK(rules[0].first == 3);
  CHECK(rules[0].count == 1);
  CHECK(rules[0].error == Error::kOutOfMemory);
  CHECK(rules[1].count == 2);
  CHECK(rules[1].error == Error::kIllegalAddress);
  const std::vector<Price> prices = parse_prices("map:2000,launch:500+80000");
  REQUIRE(prices.size() == 2);
  CHECK(prices[0].host_ns == 2000);
  CHECK(prices[1].device_ns == 80000);
  for (const char* const wrong : {"map", "maps:1", "map:0", "map:x", "map:1x", "map:1=a", ":1"}) {
    INFO(wrong);
    CHECK_THROWS_AS(parse_failures(wrong), std::invalid_argument);
  }
  CHECK_THROWS_AS(parse_prices("map:1+b"), std::invalid_argument);
}

// Sets environment variables, and takes them away again.
class Environment {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  explicit Environment(Variables variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }

 private:
  const Variables variables_;
};

TEST_CASE("settings are read from the environment") {
  const Environment environment(Environment::Variables{{"FAKE_CUDA_DEVICES", "3"},
                                                       {"FAKE_CUDA_MEMORY", "80GiB,512MiB"},
                                                       {"FAKE_CUDA_MAPPING_LIMIT", "100"},
                                                       {"FAKE_CUDA_LATE", "asked"},
                                                       {"FAKE_CUDA_TOUCH", "0"},
                                                       {"FAKE_CUDA_PEERS", "0"},
                                                       {"FAKE_CUDA_FATAL", "1"},
                                                       {"FAKE_CUDA_LOG_ENTRIES", "7"},
                                                       {"FAKE_CUDA_BLAS_WORKSPACE", "4KiB"},
                                                       {"FAKE_CUDA_DNN_WORKSPACE", "5"},
                                                       {"FAKE_CUDA_FAIL", "map:3"},
                                                       {"FAKE_CUDA_PRICE", "map:3"},
                                                       {"CUDA_VISIBLE_DEVICES", "0,1"}});
  const Settings settings = settings_from_environment();
  CHECK(settings.devices == 2);
  CHECK(settings.memory_of(0) == size_t{80} << 30);
  CHECK(settings.memory_of(1) == size_t{512} << 20);
  CHECK(settings.memory_of(2) == size_t{512} << 20);
  CHECK(settings.mapping_limit == 100);
  CHECK(settings.late_queries == kOnlyWhenAsked);
  CHECK_FALSE(settings.touch_memory);
  CHECK_FALSE(settings.peers);
  CHECK(settings.races_are_fatal);
  CHECK(settings.log_entries == 7);
  CHECK(settings.blas_workspace_bytes == 4096);
  CHECK(settings.dnn_workspace_bytes == 5);
  CHECK(settings.failures.size() == 1);
  CHECK(settings.prices.size() == 1);
}

TEST_CASE("a setting that is unknown or wrong is named") {
  for (const auto& [name, value] : Environment::Variables{{"FAKE_CUDA_MEMROY", "1"},
                                                          {"FAKE_CUDA_MEMORY", "1GB"},
                                                          {"FAKE_CUDA_MEMORY", ""},
                                                          {"FAKE_CUDA_MEMORY", "1GiB,"},
                                                          {"FAKE_CUDA_DEVICES", "-1"},
                                                          {"FAKE_CUDA_TOUCH", "yes"},
                                                          {"FAKE_CUDA_LATE", "late"},
                                                          {"FAKE_CUDA_FAIL", "map"}}) {
    const Environment environment(Environment::Variables{{name, value}});
    INFO(name << "=" << value);
    try {
      settings_from_environment();
      FAIL("accepted");
    } catch (const std::invalid_argument& problem) {
      CHECK(std::string(problem.what()).find(name) != std::string::npos);
    }
  }
}

TEST_CASE("an empty CUDA_VISIBLE_DEVICES leaves no device") {
  const Environment environment(Environment::Variables{{"CUDA_VISIBLE_DEVICES", ""}});
  CHECK(settings_from_environment().devices == 0);
}

}  // namespace
}  // namespace tidepool::fake_cuda
