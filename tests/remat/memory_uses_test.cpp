#include "remat/memory_uses.h"

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "remat/operator_call.h"
#include "tests/support/catch.h"
#include "tests/support/memory_tier.h"
#include "tests/support/remat_fixture.h"

namespace tidepool {
namespace {

using Tensor = RematFixture::Tensor;
using Uses = std::map<std::string, size_t>;

Uses all(const std::vector<UsedBytes>& uses) {
  Uses out;
  for (const UsedBytes& each : uses) out[each.use] += each.bytes;
  return out;
}

// What a request of all memory is refused with.
OutOfMemoryReport refusal(RematFixture& job) {
  try {
    job.allocator.allocate(job.allocator.statistics().budget_bytes + 1);
  } catch (const OutOfMemory& error) {
    return error.report();
  }
  FAIL("served");
  return {};
}

constexpr remat::RecordType kConvolution{"aten::convolution_backward.out"};

TEST_CASE("what memory is used for is said by role, operator and reason") {
  RematFixture job;
  Tensor x = job.input(100);
  Tensor weight = job.input(200);
  Tensor state = job.input(25);
  Tensor a = job.pure({x, weight}, 300);
  Tensor b = job.pure({x, weight}, 400);
  Tensor opaque = job.run({x}, {50}, 100, 0, false)[0];
  Tensor loose = job.pure({weight}, 60);
  job.tracked(weight)->role = remat::Role::kParameter;
  job.tracked(state)->role = remat::Role::kOptimizerState;
  CHECK(job.evict(b));
  job.drop(x);
  void* workspace = job.allocator.allocate(4096);
  remat::OperatorCall call(job.runtime);
  call.set_type(kConvolution);
  {
    DeviceLock lock(job.mutex);
    call.add(a->tracked, remat::Access::kRead);
  }
  void* temporary = job.allocator.allocate(8192);
  const OutOfMemoryReport report = refusal(job);
  const Uses pinned = all(report.pinned);
  CHECK(pinned.at("parameters") == 1600);
  CHECK(pinned.at("optimizer state") == 200);
  CHECK(pinned.at("operands of convolution_backward") == 2400);
  CHECK(pinned.at("temporaries of convolution_backward") == 8192);
  CHECK(pinned.at("memory that no operator has used (workspaces, new tensors)") == 4096);
  CHECK(pinned.at("contents of freed tensors from which evicted ones can be computed") == 800);
  CHECK(pinned.at("results of operators that cannot be run again") == 400);
  CHECK(all(report.evictable).at("results that can be computed again") == 480);
  CHECK(report.pinned_bytes() + report.evictable_bytes() == report.allocated_bytes);
  job.allocator.free(temporary);
  job.allocator.free(workspace);
  CHECK(job.matches(loose));
  CHECK(job.matches(opaque));
}

TEST_CASE("contents without lineage can be evicted as long as a tier takes them") {
  MemoryTier::Settings settings;
  settings.capacity = 1600;
  RematFixture job(1 << 20, {}, nullptr, std::make_unique<MemoryTier>(settings));
  const Tensor weight = job.input(200);
  const Tensor state = job.input(32);
  job.tracked(weight)->role = remat::Role::kParameter;
  job.tracked(state)->role = remat::Role::kOptimizerState;
  const auto evictable = [&] { return all(refusal(job).evictable); };
  CHECK(evictable() == Uses{{"parameters", 1600}, {"optimizer state", 256}});
  CHECK(job.evict(weight));
  CHECK(evictable().empty());  // the tier is full
  CHECK(all(refusal(job).pinned).at("optimizer state") == 256);
  CHECK(job.matches(weight));
  CHECK(evictable() == Uses{{"parameters", 1600}});  // of which there is a copy
  CHECK(job.matches(state));
}

TEST_CASE("gradients are known by the backend, and operators of other threads are told apart") {
  RematFixture job;
  Tensor weight = job.input(200);
  Tensor gradient = job.pure({weight}, 200);
  Tensor other = job.pure({weight}, 300);
  job.tracked(weight)->role = remat::Role::kParameter;
  job.framework.gradients[job.tracked(weight)] = job.tracked(gradient);
  job.tracked(weight)->backend_notes = &job;  // as a backend has them on parameters that it knows
  CHECK(all(refusal(job).evictable).at("gradients") == 1600);
  void* temporary = nullptr;
  std::optional<remat::OperatorCall> call;
  std::thread([&] {
    call.emplace(job.runtime);
    {
      DeviceLock lock(job.mutex);
      call->add(other->tracked, remat::Access::kRead);
    }
    temporary = job.allocator.allocate(512);
  }).join();
  const OutOfMemoryReport report = refusal(job);
  CHECK(all(report.pinned).at("operands of operators on other threads") == 2400);
  CHECK(all(report.pinned).at("temporaries of operators on other threads") == 512);
  CHECK(!all(report.evictable).contains("gradients"));  // they may be changing
  job.framework.gradients.clear();
  job.allocator.free(temporary);
}

TEST_CASE("what was marked as a gradient stays one, though its parameter is not known any more") {
  RematFixture job;
  Tensor weight = job.input(200);
  Tensor gradient = job.pure({weight}, 200);
  job.tracked(weight)->backend_notes = &job;
  job.framework.gradients[job.tracked(weight)] = job.tracked(gradient);
  job.runtime.mark_gradients();
  job.framework.gradients.clear();
  CHECK(all(refusal(job).evictable).at("gradients") == 1600);
}

TEST_CASE("whatever a job has done, its report adds up and every line says something") {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    RematFixture job(96 << 10);
    std::vector<Tensor> tensors = {job.input(300), job.input(500)};
    std::mt19937_64 random(seed);
    for (int k = 0; k < 60; ++k) {
      const Tensor from = tensors[random() % tensors.size()];
      try {
        switch (random() % 5) {
          case 0:
            job.update(tensors[random() % tensors.size()], {from});
            break;
          case 1:
            job.evict(from);
            break;
          case 2:
            tensors.push_back(job.run({from}, {100}, 100, 0, random() % 2 == 0)[0]);
            break;
          default:
            tensors.push_back(job.pure({from}, 100 + random() % 900));
            break;
        }
      } catch (const OutOfMemory& error) {
        CHECK(error.report().lower_bound_budget_bytes > error.report().budget_bytes);
      }
      const OutOfMemoryReport report = refusal(job);
      size_t bytes = 0;
      for (const auto* uses : {&report.pinned, &report.evictable}) {
        for (const UsedBytes& each : *uses) {
          CHECK(each.use != "allocated");
          bytes += each.bytes;
        }
      }
      CHECK(bytes == job.allocator.statistics().allocated_bytes);
    }
  }
}

}  // namespace
}  // namespace tidepool
