#include "remat/lineage/components.h"

#include <cinttypes>
#include <utility>

#include "allocator/base/check.h"

namespace tidepool::remat {

Components::Node Components::add(uint64_t cost_ns) {
  Node node = 0;
  if (free_.empty()) {
    node = static_cast<Node>(entries_.size());
    entries_.emplace_back();
  } else {
    node = free_.back();
    free_.pop_back();
  }
  entries_[node] = {0, 1, true, cost_ns, cost_ns};
  return node;
}

Components::Node Components::find(Node node) {
  // Path halving hangs each node on the way below its grandparent. The node passed over loses a
  // reference by that, and may be freed.
  while (entries_[node].parent != 0) {
    const Node parent = entries_[node].parent;
    const Node grandparent = entries_[parent].parent;
    if (grandparent == 0) return parent;
    entries_[node].parent = grandparent;
    ++entries_[grandparent].references;
    release(parent);
    node = grandparent;
  }
  return node;
}

void Components::unite(Node a, Node b) {
  a = find(a);
  b = find(b);
  if (a == b) return;
  if (entries_[a].references < entries_[b].references) std::swap(a, b);
  entries_[b].parent = a;
  ++entries_[a].references;
  entries_[a].sum_ns += std::exchange(entries_[b].sum_ns, 0);
}

void Components::remove(Node node) {
  entries_[find(node)].sum_ns -= std::exchange(entries_[node].own_ns, 0);
  entries_[node].member = false;
  release(node);
}

void Components::release(Node node) {
  while (node != 0 && --entries_[node].references == 0) {
    const Node parent = entries_[node].parent;
    entries_[node] = {};
    free_.push_back(node);
    node = parent;
  }
}

void Components::check_invariants() {
  std::vector<uint64_t> sums(entries_.size());
  std::vector<uint32_t> references(entries_.size());
  for (Node node = 1; node < entries_.size(); ++node) {
    Node root = node;
    while (entries_[root].parent != 0) root = entries_[root].parent;
    sums[root] += entries_[node].own_ns;
    references[node] += entries_[node].member;
    references[entries_[node].parent] += entries_[node].references > 0;
  }
  for (Node node = 1; node < entries_.size(); ++node) {
    const Entry& entry = entries_[node];
    TIDEPOOL_CHECK(entry.references == references[node], "invariant 2: %u references, %u found",
                   entry.references, references[node]);
    TIDEPOOL_CHECK(entry.parent != 0 || entry.sum_ns == sums[node],
                   "invariant 1: sum %" PRIu64 ", members %" PRIu64, entry.sum_ns, sums[node]);
  }
}

}  // namespace tidepool::remat
