// Components: a union-find over evicted values, where each component knows the sum of its members'
// costs. It approximates exact neighbourhoods quickly (DTR, Kirisame et al. 2021, appendix C: e~*).
// Joining is exact. When a member leaves, its cost is subtracted, but the component is not split,
// so that values that it has joined stay joined ("phantom" neighbours).
// Owns its nodes, numbered from 1; a node is freed when neither a member nor another node refers to
// it. Not thread safe. Invariants: (1) a root's sum is that of the costs of the members in its
// component; (2) a node's references are its member, if it has one, and its children.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "remat/lineage/container_bytes.h"

namespace tidepool::remat {

class Components {
 public:
  using Node = uint32_t;

  // Adds a member in a component of its own.
  Node add(uint64_t cost_ns);
  void unite(Node a, Node b);
  // Removes a member, whose node's number may be given to another one.
  void remove(Node node);

  // The node that stands for the component of `node`; valid until the next change.
  Node find(Node node);
  uint64_t sum_ns(Node node) { return entries_[find(node)].sum_ns; }
  uint64_t own_ns(Node node) const { return entries_[node].own_ns; }

  size_t bookkeeping_bytes() const { return bytes_of(entries_) + bytes_of(free_); }
  size_t nodes() const { return entries_.size() - 1 - free_.size(); }
  void check_invariants();

 private:
  struct Entry {
    Node parent = 0;  // 0: a root
    uint32_t references = 0;
    bool member = false;
    uint64_t own_ns = 0;  // the member's cost; 0 once it has left
    uint64_t sum_ns = 0;  // of a root: the costs of all members of the component
  };

  void release(Node node);

  std::vector<Entry> entries_ = std::vector<Entry>(1);
  std::vector<Node> free_;
};

}  // namespace tidepool::remat
