// ObjectPool and SlabPool: memory for lineage. They own the memory that they hand out and never
// return it to the system, so that they hold as much as was in use at once at most. Not thread
// safe: the device's lock is held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace tidepool::remat {

// A pool of objects of one type, which can be iterated over and keep their addresses. T is
// trivially destructible, and an object starts as T{}.
template <typename T>
class ObjectPool {
 public:
  static constexpr size_t kChunk = 256;

  T* take() {
    if (free_.empty()) grow();
    Slot* slot = free_.back();
    free_.pop_back();
    slot->in_use = true;
    ++live_;
    return new (&slot->object) T{};
  }

  void put(T* object) {
    Slot* slot = reinterpret_cast<Slot*>(object);
    slot->in_use = false;
    --live_;
    free_.push_back(slot);
  }

  size_t live() const { return live_; }
  size_t bytes() const { return live_ * sizeof(Slot); }

  template <typename Function>
  void for_each(Function&& function) const {
    for (const auto& chunk : chunks_) {
      for (size_t k = 0; k < kChunk; ++k) {
        if (chunk[k].in_use) function(chunk[k].object);
      }
    }
  }

 private:
  struct Slot {
    T object;
    bool in_use = false;
  };

  void grow() {
    chunks_.push_back(std::make_unique<Slot[]>(kChunk));
    Slot* chunk = chunks_.back().get();
    for (size_t k = kChunk; k-- > 0;) free_.push_back(&chunk[k]);
  }

  std::vector<std::unique_ptr<Slot[]>> chunks_;
  std::vector<Slot*> free_;
  size_t live_ = 0;
};

// A pool of raw memory, aligned to 16 bytes, in sizes that are multiples of 32 bytes. Large
// requests go to malloc().
class SlabPool {
 public:
  static constexpr size_t kGrain = 32;

  SlabPool() = default;
  SlabPool(const SlabPool&) = delete;
  SlabPool& operator=(const SlabPool&) = delete;
  ~SlabPool() {
    for (void* chunk : chunks_) std::free(chunk);
  }

  void* take(size_t bytes) {
    const size_t size_class = class_of(bytes);
    ++live_;
    bytes_ += size_class * kGrain;
    if (size_class >= kClasses) return checked(std::malloc(size_class * kGrain));
    if (FreeSlab* slab = free_[size_class]) {
      free_[size_class] = slab->next;
      return slab;
    }
    if (left_ < size_class * kGrain) grow();
    char* slab = cursor_;
    cursor_ += size_class * kGrain;
    left_ -= size_class * kGrain;
    return slab;
  }

  // Requires: `bytes` is what take() was called with.
  void put(void* slab, size_t bytes) {
    const size_t size_class = class_of(bytes);
    --live_;
    bytes_ -= size_class * kGrain;
    if (size_class >= kClasses) {
      std::free(slab);
      return;
    }
    free_[size_class] = new (slab) FreeSlab{free_[size_class]};
  }

  size_t live() const { return live_; }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kClasses = 64;
  static constexpr size_t kChunkBytes = 64 << 10;
  struct FreeSlab {
    FreeSlab* next;
  };

  // Even a request of no bytes has a slab, because a free slab holds a link.
  static size_t class_of(size_t bytes) { return bytes == 0 ? 1 : (bytes + kGrain - 1) / kGrain; }
  static void* checked(void* memory) {
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }

  void grow() {
    cursor_ = static_cast<char*>(checked(std::aligned_alloc(64, kChunkBytes)));
    chunks_.push_back(cursor_);
    left_ = kChunkBytes;
  }

  FreeSlab* free_[kClasses] = {};
  std::vector<void*> chunks_;
  char* cursor_ = nullptr;
  size_t left_ = 0;
  size_t live_ = 0;
  size_t bytes_ = 0;
};

}  // namespace tidepool::remat
