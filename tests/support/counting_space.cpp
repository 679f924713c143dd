#include "tests/support/counting_space.h"

#include <algorithm>

namespace tidepool::test {

void CountingSpace::check_budget() {
  size_t held = std::max(handle_bytes_, mapped_bytes_);
  peak_bytes_ = std::max(peak_bytes_, held);
  if (held > budget_bytes_) {
    throw BudgetBroken(std::to_string(held) + " bytes held, of a budget of " +
                       std::to_string(budget_bytes_));
  }
}

size_t CountingSpace::held_bytes() const {
  std::lock_guard lock(mutex_);
  return std::max(handle_bytes_, mapped_bytes_);
}

size_t CountingSpace::held_peak_bytes() const {
  std::lock_guard lock(mutex_);
  return peak_bytes_;
}

size_t CountingSpace::device_calls() const {
  std::lock_guard lock(mutex_);
  return device_calls_;
}

HandleId CountingSpace::create_handle(size_t bytes) {
  std::lock_guard lock(mutex_);
  ++device_calls_;
  HandleId handle = inner_.create_handle(bytes);
  handles_.emplace(handle, bytes);
  handle_bytes_ += bytes;
  check_budget();
  return handle;
}

void CountingSpace::release_handle(HandleId handle) {
  std::lock_guard lock(mutex_);
  ++device_calls_;
  inner_.release_handle(handle);
  handle_bytes_ -= handles_.at(handle);
  handles_.erase(handle);
}

void CountingSpace::map(Address address, size_t bytes, HandleId handle) {
  std::lock_guard lock(mutex_);
  ++device_calls_;
  inner_.map(address, bytes, handle);
  mapped_.emplace(address, bytes);
  mapped_bytes_ += bytes;
  check_budget();
}

void CountingSpace::set_access(Address address, size_t bytes) {
  std::lock_guard lock(mutex_);
  ++device_calls_;
  inner_.set_access(address, bytes);
}

void CountingSpace::unmap(Address address, size_t bytes) {
  std::lock_guard lock(mutex_);
  ++device_calls_;
  inner_.unmap(address, bytes);
  auto mapping = mapped_.find(address);
  while (mapping != mapped_.end() && mapping->first < address + bytes) {
    mapped_bytes_ -= mapping->second;
    mapping = mapped_.erase(mapping);
  }
}

MoveResult CountingSpace::move(HandleId handle, Address from, Address to, size_t bytes) {
  std::lock_guard lock(mutex_);
  ++device_calls_;
  MoveResult result = inner_.move(handle, from, to, bytes);
  if (result != MoveResult::kStayed) {
    mapped_bytes_ -= mapped_.at(from);
    mapped_.erase(from);
  }
  if (result == MoveResult::kMoved) {
    mapped_.emplace(to, bytes);
    mapped_bytes_ += bytes;
    check_budget();
  }
  return result;
}

}  // namespace tidepool::test
