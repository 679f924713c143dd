#include "remat/tier/chained_tier.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "allocator/base/device_error.h"
#include "remat/tier/file_tier.h"
#include "tests/support/catch.h"
#include "tests/support/death.h"
#include "tests/support/faulty_file.h"
#include "tests/support/random.h"
#include "tests/support/simulated_copies.h"

namespace tidepool::remat {
namespace {

using test::FaultyFile;
using test::kInStream;
using test::kJob;
using test::kOutStream;
using test::SimulatedCopies;
using World = SimulatedCopies::World;
using Bytes = std::vector<char>;

constexpr size_t kBlock = size_t{256} << 10;
constexpr StreamId kUsers[] = {kJob};

// A file whose reader may use the memory that it reads into: whatever has used that is over.
class WatchedTier final : public Tier {
 public:
  WatchedTier(std::unique_ptr<Tier> file, World& world) : file_(std::move(file)), world_(world) {}
  std::string describe() const override { return file_->describe(); }
  uint64_t most_bytes() const override { return file_->most_bytes(); }
  bool has_room(size_t bytes) const override { return file_->has_room(bytes); }
  std::optional<TierSlot> store(const void* from, size_t bytes,
                                std::span<const StreamId> users) override {
    if (watches_stores) take(from);
    return file_->store(from, bytes, users);
  }
  void load(TierSlot slot, void* to, StreamId user) override {
    take(to);
    file_->load(slot, to, user);
  }
  bool matches(TierSlot slot, const void* at) override { return file_->matches(slot, at); }
  void drop(TierSlot slot) override { file_->drop(slot); }
  uint64_t store_ns(size_t bytes) const override { return file_->store_ns(bytes); }
  uint64_t load_ns(size_t bytes) const override { return file_->load_ns(bytes); }
  TierStatistics statistics() const override { return file_->statistics(); }
  void become_forked_child() override { file_->become_forked_child(); }

  bool watches_stores = true;  // nothing else reads what is stored meanwhile

 private:
  void take(const void* at) {
    const std::string found =
        world_.streams.take_away(Address{reinterpret_cast<uintptr_t>(at)}, 4096);
    if (world_.race.empty()) world_.race = found;
  }

  std::unique_ptr<Tier> file_;
  World& world_;
};

// Host's memory for three blocks of contents beside the buffers, and a file of sixteen.
struct Chain {
  explicit Chain(FaultyFile::Fault fault = {}, uint64_t host = 4 * kBlock,
                 uint64_t disk = 16 * kBlock, size_t page_locked = SIZE_MAX) {
    world.host_bytes = page_locked;
    auto on_host = std::make_unique<HostTier>(std::make_unique<SimulatedCopies>(world), host, 1000);
    auto made = std::make_unique<FaultyFile>(fault);
    file = made.get();
    auto below = std::make_unique<WatchedTier>(
        std::make_unique<FileTier>(std::move(made), "the test's memory", disk), world);
    watched = below.get();
    tier = std::make_unique<ChainedTier>(std::move(on_host), std::move(below));
  }

  std::optional<TierSlot> store(const Bytes& block) {
    world.use(kJob, block.data(), block.size());
    const auto slot = tier->store(block.data(), block.size(), kUsers);
    wait_for(kOutStream);
    world.use(kJob, block.data(), block.size());  // somebody else has the block
    return slot;
  }
  // Blocks live as long as the chain, so that each address has one use.
  const Bytes& load(TierSlot slot, size_t bytes) {
    blocks.push_back(std::make_unique<Bytes>(bytes));
    world.use(kJob, blocks.back()->data(), bytes);
    tier->load(slot, blocks.back()->data(), kJob);
    wait_for(kInStream);
    world.use(kJob, blocks.back()->data(), bytes);
    return *blocks.back();
  }
  // The job's own calls may be the ones that fail; it makes them again.
  void wait_for(StreamId stream) {
    for (bool done = false; !done;) {
      try {
        world.streams.wait(kJob, *world.streams.record(stream));
        done = true;
      } catch (const DeviceError&) {
      }
    }
  }
  const Bytes& block(size_t bytes, int seed) {
    blocks.push_back(std::make_unique<Bytes>(bytes));
    SplitMix random(static_cast<uint64_t>(seed));
    for (char& each : *blocks.back()) each = static_cast<char>(random.next());
    return *blocks.back();
  }

  World world;
  std::vector<std::unique_ptr<Bytes>> blocks;
  FaultyFile* file;
  WatchedTier* watched;
  std::unique_ptr<ChainedTier> tier;
};

TEST_CASE("what finds no room on the host moves to the file, the oldest first, and comes back") {
  Chain chain;
  std::vector<std::pair<const Bytes*, TierSlot>> stored;
  for (int k = 0; k < 10; ++k) {
    const Bytes& block = chain.block(kBlock - 100, k);
    CHECK(chain.tier->has_room(block.size()));
    const auto slot = chain.store(block);
    REQUIRE(slot);
    stored.emplace_back(&block, *slot);
    CHECK((chain.file->writes() > 0) == (k >= 3));
    chain.tier->check_invariants();
  }
  CHECK(chain.world.held <= 4 * kBlock);
  CHECK(chain.tier->statistics().held_bytes == chain.tier->statistics().peak_bytes);
  const size_t reads = chain.file->reads();
  CHECK(chain.load(stored[9].second, kBlock - 100) == *stored[9].first);
  CHECK(chain.file->reads() == reads);  // the newest are on the host
  for (const auto& [block, slot] : stored) CHECK(chain.load(slot, block->size()) == *block);
  CHECK(chain.file->reads() > reads);
  CHECK(chain.world.race == "");
  for (const auto& [block, slot] : stored) chain.tier->drop(slot);
  CHECK(chain.tier->statistics().held_bytes == 0);
  CHECK(chain.tier->statistics().stores == 10);
  CHECK(chain.tier->statistics().loads == 11);
  chain.tier->check_invariants();
}

TEST_CASE("what is larger than the host's memory goes to the file at once") {
  const bool refused = GENERATE(false, true);  // page-locked memory
  Chain chain({}, 4 * kBlock, 16 * kBlock, refused ? 0 : SIZE_MAX);
  const Bytes& large = chain.block(5 * kBlock + 77, 1);
  const Bytes& small = chain.block(1000, 2);
  const auto first = chain.store(large);
  const auto second = chain.store(small);
  REQUIRE((first && second));
  CHECK(chain.load(*first, large.size()) == large);
  CHECK(chain.load(*second, small.size()) == small);
  CHECK(chain.world.race == "");
  chain.tier->drop(*first);
  chain.tier->drop(*second);
  chain.tier->check_invariants();
}

TEST_CASE("both tiers full is a refusal, and what is there stays") {
  Chain chain({}, 4 * kBlock, 2 * kBlock);
  std::vector<std::pair<const Bytes*, TierSlot>> stored;
  for (int k = 0; k < 8; ++k) {
    const Bytes& block = chain.block(kBlock, k);
    if (const auto slot = chain.store(block)) stored.emplace_back(&block, *slot);
  }
  CHECK(stored.size() == 5);
  CHECK(chain.tier->statistics().refusals == 3);
  CHECK_FALSE(chain.tier->has_room(kBlock));
  for (const auto& [block, slot] : stored) {
    CHECK(chain.load(slot, block->size()) == *block);
    chain.tier->drop(slot);
  }
  CHECK(chain.tier->has_room(kBlock));
}

TEST_CASE("prices grow with the part that lies in the file") {
  Chain chain;
  const uint64_t at_first = chain.tier->load_ns(kBlock), store = chain.tier->store_ns(kBlock);
  std::vector<TierSlot> slots;
  for (int k = 0; k < 9; ++k) slots.push_back(*chain.store(chain.block(kBlock, k)));
  CHECK(chain.tier->load_ns(kBlock) == at_first);
  CHECK(chain.tier->settle_prices());
  CHECK(chain.tier->load_ns(kBlock) > at_first);
  CHECK(chain.tier->store_ns(kBlock) > store);
  for (const TierSlot slot : slots) chain.tier->drop(slot);
}

TEST_CASE("a forked child has neither") {
  Chain chain;
  const Bytes& block = chain.block(1000, 1);
  const auto slot = chain.store(block);
  REQUIRE(slot);
  const int status = test::status_of_child([&] {
    chain.tier->become_forked_child();
    if (chain.tier->has_room(1)) return 1;
    if (chain.tier->store(block.data(), block.size(), kUsers)) return 2;
    Bytes back(1000);
    try {
      chain.tier->load(*slot, back.data(), kJob);
      return 3;
    } catch (const TierError&) {
    }
    chain.tier->drop(*slot);
    return 0;
  });
  CHECK(status == 0);
  chain.tier->drop(*slot);
}

TEST_CASE("no copy through the chain races, in random jobs") {
  uint64_t moved = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Chain chain;
    chain.watched->watches_stores = false;
    test::Random random(seed);
    std::vector<std::pair<const Bytes*, TierSlot>> stored;
    for (int step = 0; step < 60; ++step) {
      const uint64_t kind = random.below(8);
      if (kind < 4) {
        const Bytes& block = chain.block(1 + random.below(kBlock), step);
        if (const auto slot = chain.store(block)) stored.emplace_back(&block, *slot);
      } else if (kind < 6 && !stored.empty()) {
        const auto& [block, slot] = stored[random.below(stored.size())];
        CHECK(chain.load(slot, block->size()) == *block);
      } else if (kind == 6 && !stored.empty()) {
        const size_t which = random.below(stored.size());
        chain.tier->drop(stored[which].second);
        stored.erase(stored.begin() + static_cast<ptrdiff_t>(which));
      } else {
        chain.world.streams.progress(static_cast<StreamId>(random.below(3)));
      }
      chain.tier->check_invariants();
    }
    INFO("seed " << seed);
    CHECK(chain.world.race == "");
    moved += chain.file->writes();
    for (const auto& [block, slot] : stored) chain.tier->drop(slot);
  }
  CHECK(moved > 100);
}

// What a job does with a chain: contents that the host cannot hold are stored, read and dropped.
// Returns whether something could not be read; what could be has to be right.
bool run_job(Chain& chain) {
  chain.watched->watches_stores = false;
  bool lost = false;
  std::vector<std::pair<const Bytes*, TierSlot>> stored;
  const auto read = [&](size_t k) {
    const auto& [block, slot] = stored[k];
    try {
      const bool same = chain.load(slot, block->size()) == *block;
      CHECK(same);
    } catch (const TierError&) {
      lost = true;
    } catch (const DeviceError&) {
      lost = true;
    }
  };
  for (int k = 0; k < 8; ++k) {
    const Bytes& block = chain.block(k == 5 ? 4 * kBlock : kBlock - 5, k);
    if (const auto slot = chain.store(block)) stored.emplace_back(&block, *slot);
    if (k == 6) read(0);
    chain.tier->check_invariants();
  }
  for (size_t k = 0; k < stored.size(); ++k) read(k);
  for (const auto& [block, slot] : stored) chain.tier->drop(slot);
  chain.tier->check_invariants();
  CHECK(chain.tier->statistics().held_bytes == 0);
  return lost;
}

TEST_CASE("a fault at any call of the file leaves right bytes or an error") {
  const FaultyFile::Fault fault{GENERATE(FaultyFile::Kind::kWriteError,
                                         FaultyFile::Kind::kReadError, FaultyFile::Kind::kShort,
                                         FaultyFile::Kind::kOdd, FaultyFile::Kind::kNothing,
                                         FaultyFile::Kind::kInterrupted, FaultyFile::Kind::kBits)};
  Chain without;
  CHECK_FALSE(run_job(without));
  const uint64_t calls = without.file->calls();
  CHECK(calls > 50);
  uint64_t lost = 0;
  for (uint64_t at = 1; at <= calls; ++at) {
    Chain chain({fault.kind, at});
    INFO("call " << at);
    lost += run_job(chain);
    CHECK(chain.world.race == "");
  }
  using Kind = FaultyFile::Kind;
  const bool harmless = fault.kind == Kind::kShort || fault.kind == Kind::kInterrupted ||
                        fault.kind == Kind::kWriteError;
  CHECK((lost == 0) == harmless);
}

TEST_CASE("a fault at any call of the device leaves right bytes or an error") {
  enum class Device { kStreams, kCopies, kMemory };
  const auto kind = GENERATE(Device::kStreams, Device::kCopies, Device::kMemory);
  uint64_t at = 1;
  for (bool hit = true; hit; ++at) {
    Chain chain;
    if (kind == Device::kStreams) chain.world.streams.fail_at(at);
    if (kind == Device::kCopies) chain.world.fail_copy_in = at;
    if (kind == Device::kMemory) chain.world.fail_allocation_in = at;
    INFO("call " << at);
    run_job(chain);
    hit = kind == Device::kStreams  ? chain.world.streams.failed()
          : kind == Device::kCopies ? chain.world.fail_copy_in == 0
                                    : chain.world.fail_allocation_in == 0;
  }
  CHECK(at > (kind == Device::kMemory ? 2 : 20));
}

}  // namespace
}  // namespace tidepool::remat
