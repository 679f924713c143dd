// Components: union-find over evicted values; each component knows the sum of its members' costs.
// The fast stand-in for exact neighbourhoods (DTR, Kirisame et al. 2021, appendix C: e~*). Joining
// is exact; leaving subtracts the member's cost and does not split, so that values once joined by
// it stay joined ("phantom" neighbours).
// Owns its nodes; a node is freed when neither a member nor another node refers to it.
// Not thread safe. Nodes are numbered from 1; 0 is no node.
// Invariants: (1) a root's sum is that of the costs of the members in its component; (2) a node's
// references are its member, if it has one, and its children.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "remat/lineage/container_bytes.h"

namespace tidepool::remat {

class Components {
 public:
  using Node = uint32_t;

  // A component of its own for one member.
  Node add(uint64_t cost_ns);
  void unite(Node a, Node b);
  // The member leaves; its node's number may be given to another.
  void remove(Node node);

  // The component's representative; valid until the next change.
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
    uint64_t own_ns = 0;  // of a member that has not left
    uint64_t sum_ns = 0;  // of a root's component
  };

  void release(Node node);

  std::vector<Entry> entries_ = std::vector<Entry>(1);
  std::vector<Node> free_;
};

}  // namespace tidepool::remat
