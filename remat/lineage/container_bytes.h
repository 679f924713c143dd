// bytes_of(): the bytes that a container holds on the heap for its elements, by its capacity.
#pragma once

#include <cstddef>
#include <vector>

namespace tidepool::remat {

template <typename T>
size_t bytes_of(const std::vector<T>& vector) {
  return vector.capacity() * sizeof(T);
}

// A hash table of Abseil's has a control byte beside each slot.
template <typename Table>
  requires requires { typename Table::slot_type; }
size_t bytes_of(const Table& table) {
  return table.capacity() * (sizeof(typename Table::value_type) + 1);
}

}  // namespace tidepool::remat
