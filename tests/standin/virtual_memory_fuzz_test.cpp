// Random virtual memory calls, right and wrong, against a model that knows every page.
#include <map>
#include <vector>

#include "tests/standin/driver.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool::fake_cuda {
namespace {

constexpr size_t kPages = 8;
constexpr size_t kDevicePages = 6;

class ModelledMemory {
 public:
  explicit ModelledMemory(uint64_t seed)
      : random_(seed),
        cuda_({.memory_bytes = {kDevicePages * kPage}}),
        range_(cuda_.reserved(kPages * kPage)) {}

  // One call, which succeeds exactly if the model says so; then everything is compared.
  void step() {
    switch (random_.below(6)) {
      case 0:
        return create();
      case 1:
        return release();
      case 2:
        return retain();
      case 3:
        return unmap();
      case 4:
        return allow();
      default:
        return map();
    }
  }

  void check() const {
    REQUIRE(cuda_.machine.memory(0).used_bytes() == used_pages() * kPage);
    REQUIRE(cuda_.machine.virtual_memory.mappings() == mappings_.size());
    REQUIRE(cuda_.machine.virtual_memory.handles() == handles_.size());
    for (const auto& [page, mapping] : mappings_) {
      if (!mapping.is_accessible) continue;
      const auto& stamps = handles_.at(mapping.handle).stamps;
      for (size_t i = 0; i < stamps.size(); ++i) REQUIRE(*at(page + i) == stamps[i]);
    }
  }

 private:
  struct Handle {
    int owners = 1;
    std::vector<uint8_t> stamps;  // what the first byte of each page holds
  };
  struct Mapping {
    unsigned long long handle;
    size_t pages;
    bool is_accessible = false;
  };

  uint8_t* at(size_t page) const { return reinterpret_cast<uint8_t*>(range_ + page * kPage); }

  size_t used_pages() const {
    size_t pages = 0;
    for (const auto& [id, handle] : handles_) pages += handle.stamps.size();
    return pages;
  }
  bool is_mapped(unsigned long long handle) const {
    for (const auto& [page, mapping] : mappings_) {
      if (mapping.handle == handle) return true;
    }
    return false;
  }
  bool overlaps(size_t first, size_t pages) const {
    for (const auto& [page, mapping] : mappings_) {
      if (page < first + pages && first < page + mapping.pages) return true;
    }
    return false;
  }
  // Whether mappings tile the pages.
  bool tiled(size_t first, size_t pages) const {
    for (size_t page = first; page < first + pages;) {
      const auto found = mappings_.find(page);
      if (found == mappings_.end() || page + found->second.pages > first + pages) return false;
      page += found->second.pages;
    }
    return pages != 0;
  }
  // A handle that lives, or one that did, or never will.
  unsigned long long any_handle() { return random_.below(newest_ + 2); }
  void drop(unsigned long long id) {
    if (handles_.at(id).owners == 0 && !is_mapped(id)) handles_.erase(id);
  }

  void create() {
    const size_t pages = random_.between(1, 3);
    const unsigned long long id = cuda_.created(pages * kPage);
    REQUIRE((id != 0) == (used_pages() + pages <= kDevicePages));
    if (id == 0) return;
    newest_ = id;
    handles_[id].stamps.resize(pages);
  }
  void release() {
    const unsigned long long id = any_handle();
    const auto found = handles_.find(id);
    const bool works = found != handles_.end() && found->second.owners > 0;
    REQUIRE(cuda_.release(id) == (works ? kOk : kInvalid));
    if (!works) return;
    --found->second.owners;
    drop(id);
  }
  void retain() {
    const size_t page = random_.below(kPages);
    unsigned long long id = 0;
    const int result = cuda_.retain(&id, at(page));
    REQUIRE((result == kOk) == overlaps(page, 1));
    if (result != kOk) return;
    REQUIRE(handles_.contains(id));
    ++handles_[id].owners;
  }
  void map() {
    const unsigned long long id = any_handle();
    const size_t page = random_.below(kPages);
    const size_t pages = random_.between(1, 3);
    const auto found = handles_.find(id);
    const bool works = found != handles_.end() && found->second.owners > 0 &&
                       found->second.stamps.size() == pages && page + pages <= kPages &&
                       !overlaps(page, pages);
    REQUIRE(cuda_.map(range_ + page * kPage, pages * kPage, 0, id, 0) == (works ? kOk : kInvalid));
    if (works) mappings_[page] = Mapping{id, pages};
  }
  void unmap() {
    const size_t page = random_.below(kPages);
    const size_t pages = random_.below(5);
    const bool works = tiled(page, pages);
    REQUIRE(cuda_.unmap(range_ + page * kPage, pages * kPage) == (works ? kOk : kInvalid));
    if (!works) return;
    std::vector<unsigned long long> unmapped;
    for (size_t next = page; next < page + pages;) {
      const Mapping mapping = mappings_.at(next);
      mappings_.erase(next);
      unmapped.push_back(mapping.handle);
      next += mapping.pages;
    }
    for (const unsigned long long id : unmapped) {
      if (handles_.contains(id)) drop(id);
    }
  }
  void allow() {
    const size_t page = random_.below(kPages);
    const size_t pages = random_.below(5);
    const bool works = tiled(page, pages);
    REQUIRE(cuda_.allow(range_ + page * kPage, pages * kPage) == (works ? kOk : kInvalid));
    if (!works) return;
    for (size_t next = page; next < page + pages;) {
      Mapping& mapping = mappings_.at(next);
      mapping.is_accessible = true;
      std::vector<uint8_t>& stamps = handles_.at(mapping.handle).stamps;
      const size_t stamped = random_.below(stamps.size());
      stamps[stamped] = static_cast<uint8_t>(random_.next());
      *at(next + stamped) = stamps[stamped];
      next += mapping.pages;
    }
  }

  test::Random random_;
  Driver cuda_;
  const driver::DeviceAddress range_;
  std::map<unsigned long long, Handle> handles_;
  std::map<size_t, Mapping> mappings_;  // by first page
  unsigned long long newest_ = 0;
};

TEST_CASE("random virtual memory calls do what a model of the pages says") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    ModelledMemory memory(seed);
    for (int i = 0; i < 200; ++i) {
      INFO("step " << i);
      memory.step();
      memory.check();
    }
  }
}

}  // namespace
}  // namespace tidepool::fake_cuda
