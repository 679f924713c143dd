#include "cuda/streams/stream_table.h"

#include "allocator/base/check.h"

namespace tidepool::device {

namespace {

constexpr size_t kFirstSlots = 256;
constexpr size_t kStreams = size_t{1} << 16;

}  // namespace

StreamTable::StreamTable() {
  generations_.push_back(std::make_unique<Slots>(kFirstSlots));
  slots_ = generations_.back().get();
}

StreamTable::~StreamTable() = default;

StreamId StreamTable::Slots::find(driver::Stream stream) const {
  for (size_t slot = home(stream);; slot = (slot + 1) & mask) {
    driver::Stream key = keys[slot].load(std::memory_order_acquire);
    if (key == stream) return ids[slot].load(std::memory_order_relaxed);
    if (key == nullptr) return StreamId::kDefault;
  }
}

void StreamTable::Slots::insert(driver::Stream stream, StreamId id) {
  size_t slot = home(stream);
  while (keys[slot].load(std::memory_order_relaxed) != nullptr) slot = (slot + 1) & mask;
  ids[slot].store(id, std::memory_order_relaxed);
  keys[slot].store(stream, std::memory_order_release);
}

StreamId StreamTable::add(driver::Stream stream) {
  std::lock_guard lock(mutex_);
  Slots* slots = slots_.load(std::memory_order_relaxed);
  StreamId id = slots->find(stream);
  if (id != StreamId::kDefault) return id;  // another thread was first
  TIDEPOOL_CHECK(streams_.size() < kStreams, "stream %p is one too many",
                 static_cast<void*>(stream));
  id = static_cast<StreamId>(streams_.size());
  streams_.push_back(stream);
  if (streams_.size() * 2 > slots->keys.size()) {
    auto larger = std::make_unique<Slots>(slots->keys.size() * 2);
    for (size_t number = 1; number + 1 < streams_.size(); ++number) {
      larger->insert(streams_[number], static_cast<StreamId>(number));
    }
    larger->insert(stream, id);
    slots_.store(larger.get(), std::memory_order_release);
    generations_.push_back(std::move(larger));
  } else {
    slots->insert(stream, id);
  }
  return id;
}

driver::Stream StreamTable::stream_of(StreamId id) const {
  std::lock_guard lock(mutex_);
  TIDEPOOL_CHECK(static_cast<size_t>(id) < streams_.size(), "stream number %u of %zu",
                 static_cast<unsigned>(id), streams_.size());
  return streams_[static_cast<size_t>(id)];
}

size_t StreamTable::count() const {
  std::lock_guard lock(mutex_);
  return streams_.size();
}

}  // namespace tidepool::device
